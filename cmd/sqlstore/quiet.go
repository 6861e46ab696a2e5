package main

import (
	"io"
	"log/slog"

	"google.golang.org/grpc/grpclog"
)

// quiet demotes the logs of gRPC's libraries to debug level: they write a line for each invalid client request, and
// ignore the log's format and level.
func quiet(log *slog.Logger) {
	debug := slog.NewLogLogger(log.Handler(), slog.LevelDebug).Writer()
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, debug))
}
