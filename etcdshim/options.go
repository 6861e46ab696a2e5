package etcdshim

import (
	"log/slog"
	"time"

	"google.golang.org/grpc"
)

// Options says how to serve. Zero fields have the defaults named below.
type Options struct {
	// Name is the member's name as in MemberList; default "default".
	Name string
	// ClientURLs and PeerURLs are this member's in MemberList. ClientURLs must not be empty. There are no
	// peers to talk to, but clients expect PeerURLs; default ClientURLs.
	ClientURLs, PeerURLs []string
	// Version is the etcd version in Status; default "3.7.3".
	Version string

	// MaxRequestBytes bounds a write request, marshalled; default 1.5 MiB. A message may be 512 KiB larger.
	MaxRequestBytes int
	// MaxTxnOps bounds the operations of a transaction; default 128.
	MaxTxnOps int
	// MaxConcurrentStreams bounds the streams of one connection; 0 means no bound.
	MaxConcurrentStreams uint32

	// KeepaliveMinTime is how often clients may ping; default 5 s.
	KeepaliveMinTime time.Duration
	// KeepaliveInterval is after how long without activity the server pings; default 2 h.
	KeepaliveInterval time.Duration
	// KeepaliveTimeout is how long the server waits for a ping's answer; default 20 s.
	KeepaliveTimeout time.Duration

	// NoLeader returns a channel that is closed while the database is out of reach, or nil when it cannot get there;
	// default: the store's.
	NoLeader func() <-chan struct{}

	// NoWorkers keeps no goroutines ready for calls: each call is somewhat slower, but an idle server costs less.
	NoWorkers bool

	// UnaryInterceptors and StreamInterceptors run around each call, the first outermost. They must not look at the
	// messages of the KV service: those are not protobuf types.
	UnaryInterceptors  []grpc.UnaryServerInterceptor
	StreamInterceptors []grpc.StreamServerInterceptor
	// ServerOptions are appended to the server's own.
	ServerOptions []grpc.ServerOption

	// WarningDuration is how long a unary call takes that is logged as slow; 0 means that none is.
	WarningDuration time.Duration

	// Logger is for what an operator should know; default: nothing is logged.
	Logger *slog.Logger
	// TempDir is where Maintenance.Snapshot makes its file; default: the system's. The file may be as large as the
	// database, and there may be four at a time. Where that is possible it has no name, so that nothing is left of it
	// after a crash.
	TempDir string

	streamPatience time.Duration // see the constant
}

const (
	defaultVersion         = "3.7.3"
	defaultMaxRequestBytes = 3 << 19
	defaultMaxTxnOps       = 128
	// messageOverhead is by how much a message may exceed MaxRequestBytes.
	messageOverhead = 512 << 10
)

func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = "default"
	}
	if len(o.PeerURLs) == 0 {
		o.PeerURLs = o.ClientURLs
	}
	if o.Version == "" {
		o.Version = defaultVersion
	}
	if o.MaxRequestBytes <= 0 {
		o.MaxRequestBytes = defaultMaxRequestBytes
	}
	if o.MaxTxnOps <= 0 {
		o.MaxTxnOps = defaultMaxTxnOps
	}
	if o.MaxConcurrentStreams == 0 {
		o.MaxConcurrentStreams = 1<<32 - 1
	}
	if o.KeepaliveMinTime <= 0 {
		o.KeepaliveMinTime = 5 * time.Second
	}
	if o.KeepaliveInterval <= 0 {
		o.KeepaliveInterval = 2 * time.Hour
	}
	if o.KeepaliveTimeout <= 0 {
		o.KeepaliveTimeout = 20 * time.Second
	}
	if o.streamPatience == 0 {
		o.streamPatience = streamPatience
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
