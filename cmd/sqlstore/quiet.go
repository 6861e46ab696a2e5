package main

import (
	"io"
	"log/slog"

	"google.golang.org/grpc/grpclog"
)

// quiet makes what gRPC's libraries log a matter of debugging: they write a line for each request that a client gets
// wrong, past the log's format and level.
func quiet(log *slog.Logger) {
	debug := slog.NewLogLogger(log.Handler(), slog.LevelDebug).Writer()
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, debug))
}
