package etcdshim

import (
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"github.com/sqlstore/sqlstore/internal/audit"
	"github.com/sqlstore/sqlstore/internal/authn"
	"github.com/sqlstore/sqlstore/internal/tracing"
)

// Options configures a Server. Zero fields have the defaults below.
type Options struct {
	// Name is the member's name in MemberList. Default "default".
	Name string
	// ClientURLs and PeerURLs are this member's URLs in MemberList. ClientURLs must not be empty. There are no peers to
	// talk to, but clients expect PeerURLs. Default: ClientURLs.
	ClientURLs, PeerURLs []string
	// Version is the etcd version in Status. Default "3.7.3".
	Version string

	// MaxRequestBytes limits a marshalled write request. Default 1.5 MiB. A message may be 512 KiB larger.
	MaxRequestBytes int
	// MaxTxnOps limits the operations of a transaction. Default 128.
	MaxTxnOps int
	// MaxConcurrentStreams limits the streams of one connection. 0 means no limit.
	MaxConcurrentStreams uint32

	// KeepaliveMinTime is the minimum time between a client's pings. Default 5 s.
	KeepaliveMinTime time.Duration
	// KeepaliveInterval is the idle time after which the server pings. Default 2 h.
	KeepaliveInterval time.Duration
	// KeepaliveTimeout is how long the server waits for the answer to a ping. Default 20 s.
	KeepaliveTimeout time.Duration

	// NoLeader returns a channel that is closed while the database is unreachable, or nil if it cannot become so.
	// Default: the store's.
	NoLeader func() <-chan struct{}

	// Authenticator checks passwords and tokens. Default: one with simple tokens.
	Authenticator *authn.Authenticator
	// ClientCertAuth makes the common name of a client's certificate its user.
	ClientCertAuth bool
	// Audit is the audit log, nil for none.
	Audit *audit.Log
	// Tracer makes the spans of calls, nil for none.
	Tracer *tracing.Tracer

	// NoWorkers keeps no goroutines ready for calls: calls are somewhat slower, but an idle server costs less.
	NoWorkers bool

	// UnaryInterceptors and StreamInterceptors run around each call, the first outermost. They must not inspect the
	// messages of the KV service, which are not protobuf types.
	UnaryInterceptors  []grpc.UnaryServerInterceptor
	StreamInterceptors []grpc.StreamServerInterceptor
	// ServerOptions are appended to the server's own.
	ServerOptions []grpc.ServerOption

	// WatchSent receives how long it took to send a response to a watch stream. Of the responses with events, about one
	// in 16 is measured. It may be nil.
	WatchSent func(kind WatchSend, events int, took time.Duration)

	// WarningDuration is the duration above which a unary call is logged as slow. 0 logs none.
	WarningDuration time.Duration

	// Logger receives what an operator should know. Default: no log.
	Logger *slog.Logger

	streamTimeout time.Duration // see the constant
}

const (
	defaultVersion         = "3.7.3"
	defaultMaxRequestBytes = 3 << 19
	defaultMaxTxnOps       = 128
	// messageOverhead is how much a message may exceed MaxRequestBytes.
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
	if o.streamTimeout == 0 {
		o.streamTimeout = streamTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
