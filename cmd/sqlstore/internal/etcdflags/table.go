package etcdflags

import (
	"flag"
	"math"
	"time"
)

// Use says what becomes of a flag.
type Use int

// The uses of a flag.
const (
	// Passed flags have a meaning for the server, which has a flag with the same name.
	Passed Use = iota
	// Command flags are for the command itself.
	Command
	// Raft flags are for members that replicate a log among each other, which no server on a SQL database has.
	Raft
	// Storage flags tune etcd's own storage, which a SQL database replaces.
	Storage
	// Refused flags ask for what cannot be done.
	Refused
	// Old flags have no effect in etcd either.
	Old
)

// reasons say why a flag has no effect.
var reasons = map[Use]string{
	Raft:    "it is for members that replicate among each other; replicas share a Postgres database instead",
	Storage: "it tunes etcd's storage; the database replaces it",
	Old:     "etcd 3.7 ignores it, too",
}

// definition is one of etcd's flags.
type definition struct {
	name  string
	value flag.Value
	use   Use
	usage string
}

// group is a part of the help.
type group struct {
	title string
	flags []definition
}

// table returns etcd's flags with their defaults.
func table() []group {
	return []group{
		{"Member", member()},
		{"Clustering", clustering()},
		{"Discovery", discovery()},
		{"Security", security()},
		{"Users and roles", users()},
		{"Monitoring", monitoring()},
		{"Logging", logging()},
		{"Tracing", tracing()},
		{"Other", other()},
		{"Without effect in etcd 3.7", old()},
	}
}

func member() []definition {
	return []definition{
		{"config-file", text(""), Command, "YAML file with settings; it replaces etcd's flags and variables"},
		{"version", boolean(false), Command, "print the version"},
		{"name", text("default"), Passed, "human-readable name of this member"},
		{"data-dir", text(""), Passed, "directory of a SQLite database (default \"<name>.etcd\")"},
		{"wal-dir", text(""), Storage, "directory of the write-ahead log"},
		{"listen-client-urls", newURLs("http://localhost:2379"), Passed, "URLs to serve clients on"},
		{"listen-client-http-urls", newURLs(), Passed, "URLs to serve HTTP clients on; the client URLs then serve " +
			"only gRPC"},
		{"listen-peer-urls", newURLs("http://localhost:2380"), Raft, "URLs for other members"},
		{"quota-backend-bytes", integer64(0), Passed, "database size in bytes that raises the NOSPACE alarm; 0 is 2 " +
			"GiB on SQLite and no quota on Postgres"},
		{"max-txn-ops", unsigned(128), Passed, "maximum number of operations in a transaction"},
		{"max-request-bytes", unsigned(3 << 19), Passed, "maximum size of a client's write request"},
		{"max-concurrent-streams", new32(math.MaxUint32), Passed, "maximum number of open streams per connection"},
		{"grpc-keepalive-min-time", duration(5 * time.Second), Passed, "minimum time between two pings of a client"},
		{"grpc-keepalive-interval", duration(2 * time.Hour), Passed, "idle time after which the server pings a " +
			"client; 0 never pings"},
		{"grpc-keepalive-timeout", duration(20 * time.Second), Passed, "how long the server waits for the answer to " +
			"its ping; 0 waits forever"},
		{"socket-reuse-port", boolean(false), Passed, "let other processes listen on the same ports (SO_REUSEPORT)"},
		{"socket-reuse-address", boolean(false), Passed, "listen on ports with connections in TIME_WAIT " +
			"(SO_REUSEADDR)"},
		{"enable-grpc-gateway", boolean(true), Passed, "serve the JSON gateway"},
		{"snapshot-count", unsigned64(10000), Raft, "transactions between snapshots of the log"},
		{"snapshot-catchup-entries", unsigned64(5000), Raft, "entries kept for slow members"},
		{"max-snapshots", unsigned(5), Storage, "snapshot files to keep"},
		{"max-wals", unsigned(5), Storage, "files of the write-ahead log to keep"},
		{"heartbeat-interval", unsigned(100), Raft, "milliseconds between heartbeats"},
		{"election-timeout", unsigned(1000), Raft, "milliseconds until an election"},
		{"initial-election-tick-advance", boolean(true), Raft, "elect faster on start"},
		{"raft-read-timeout", duration(5 * time.Second), Raft, "limit of reads between members"},
		{"raft-write-timeout", duration(5 * time.Second), Raft, "limit of writes between members"},
		{"backend-bbolt-freelist-type", text(""), Storage, "free list of the storage file: array or map"},
		{"backend-batch-interval", duration(0), Storage, "maximum time between commits of the storage file"},
		{"backend-batch-limit", integer(0), Storage, "maximum operations between commits of the storage file"},
		{"memory-mlock", boolean(false), Storage, "keep the storage file's pages in memory"},
	}
}

func clustering() []definition {
	return []definition{
		{"advertise-client-urls", newURLs("http://localhost:2379"), Passed, "client URLs to advertise"},
		{"initial-advertise-peer-urls", newURLs("http://localhost:2380"), Raft, "this member's peer URLs"},
		{"initial-cluster", text(""), Raft, "the members at the first start; several need a Postgres datastore"},
		{"initial-cluster-state", newChoice("new", "existing"), Raft, "new or existing"},
		{"initial-cluster-token", text("etcd-cluster"), Raft, "name of the cluster at its first start"},
		{"strict-reconfig-check", boolean(true), Raft, "refuse changes of members that lose the quorum"},
		{"pre-vote", boolean(true), Raft, "ask for votes before an election"},
		{"max-learners", integer(1), Raft, "maximum number of learners"},
		{"auto-compaction-mode", text("periodic"), Passed, "unit of --auto-compaction-retention: periodic (time) or " +
			"revision"},
		{"auto-compaction-retention", text("0"), Passed, "history to keep: a duration, a number of hours, or a " +
			"number of revisions; 0 turns automatic compaction off"},
		{"force-new-cluster", boolean(false), Refused, "refused: a store has no other members to leave"},
	}
}

func discovery() []definition {
	return []definition{
		{"discovery-endpoints", newSet(), Refused, "refused: replicas find each other in their database"},
		{"discovery-token", text(""), Refused, "refused, likewise"},
		{"discovery-srv", text(""), Refused, "refused, likewise"},
		{"discovery-srv-name", text(""), Refused, "refused, likewise"},
		{"discovery-fallback", newChoice("exit", "proxy"), Raft, "what follows a failed discovery: exit"},
		{"discovery-dial-timeout", duration(2 * time.Second), Raft, "limit of connecting for discovery"},
		{"discovery-request-timeout", duration(5 * time.Second), Raft, "limit of a discovery request"},
		{"discovery-keepalive-time", duration(2 * time.Second), Raft, "idle time before a ping for discovery"},
		{"discovery-keepalive-timeout", duration(6 * time.Second), Raft, "limit of a ping for discovery"},
		{"discovery-insecure-transport", boolean(true), Raft, "discovery without TLS"},
		{"discovery-insecure-skip-tls-verify", boolean(false), Raft, "discovery without verification"},
		{"discovery-cert", text(""), Raft, "certificate for discovery"},
		{"discovery-key", text(""), Raft, "private key for discovery"},
		{"discovery-cacert", text(""), Raft, "trusted authorities for discovery"},
		{"discovery-user", text(""), Raft, "user for discovery"},
		{"discovery-password", text(""), Raft, "password for discovery"},
	}
}

func security() []definition {
	return []definition{
		{"cert-file", text(""), Passed, "the server's TLS certificate chain"},
		{"key-file", text(""), Passed, "the private key of --cert-file"},
		{"client-cert-auth", boolean(false), Passed, "refuse clients without a certificate signed by " +
			"--trusted-ca-file"},
		{"trusted-ca-file", text(""), Passed, "certificates of the authorities that sign client certificates"},
		{"client-crl-file", text(""), Passed, "list of revoked client certificates"},
		{"client-cert-allowed-hostname", newList(), Passed, "accept only client certificates for one of these hosts"},
		{"client-cert-file", text(""), Raft, "certificate with which the server calls itself; it never does"},
		{"client-key-file", text(""), Raft, "private key of --client-cert-file"},
		{"auto-tls", boolean(false), Passed, "serve TLS with a generated certificate"},
		{"self-signed-cert-validity", unsigned(1), Passed, "years for which a generated certificate is valid"},
		{"cipher-suites", newList(), Passed, "cipher suites of TLS 1.2 to accept"},
		{"tls-min-version", text("TLS1.2"), Passed, "oldest TLS version to accept: TLS1.2 or TLS1.3"},
		{"tls-max-version", text(""), Passed, "newest TLS version to accept: TLS1.2 or TLS1.3"},
		{"cors", &urls{list{"*"}, "*"}, Passed, "origins whose web pages may use the JSON gateway, or * for all; if " +
			"it is not set, none without TLS on the loopback interface"},
		{"host-whitelist", newSet(), Passed, "host names to serve over HTTP without TLS, or * for all; if it is not " +
			"set, IP addresses, localhost and advertised names on the loopback interface"},
		{"peer-cert-file", text(""), Raft, "certificate for peers"},
		{"peer-key-file", text(""), Raft, "private key of --peer-cert-file"},
		{"peer-client-cert-file", text(""), Raft, "certificate for connections to peers"},
		{"peer-client-key-file", text(""), Raft, "private key of --peer-client-cert-file"},
		{"peer-client-cert-auth", boolean(false), Raft, "refuse peers without a certificate"},
		{"peer-trusted-ca-file", text(""), Raft, "authorities that sign peer certificates"},
		{"peer-crl-file", text(""), Raft, "list of revoked peer certificates"},
		{"peer-cert-allowed-cn", newList(), Raft, "common names of peers"},
		{"peer-cert-allowed-hostname", newList(), Raft, "host names of peers"},
		{"peer-skip-client-san-verification", boolean(false), Raft, "accept peers from any host"},
		{"peer-auto-tls", boolean(false), Raft, "TLS between peers with generated certificates"},
	}
}

func users() []definition {
	return []definition{
		{"auth-token", text("simple"), Passed, "kind of tokens: simple, or jwt with its options"},
		{"auth-token-ttl", unsigned(300), Passed, "seconds that a simple token lives unused"},
		{"bcrypt-cost", unsigned(10), Passed, "cost of a password's hash, from 4 to 31"},
	}
}

func monitoring() []definition {
	return []definition{
		{"listen-metrics-urls", newURLs(), Passed, "additional URLs that serve /metrics and the health endpoints"},
		{"metrics", text("basic"), Passed, "basic, or extensive, which adds histograms of call durations"},
		{"enable-pprof", boolean(false), Passed, "serve profiles under /debug/pprof/"},
		{"warning-unary-request-duration", duration(300 * time.Millisecond), Passed, "duration above which a request " +
			"is logged as slow"},
		{"warning-apply-duration", duration(100 * time.Millisecond), Passed, "duration above which a commit is " +
			"logged as slow"},
		{"corrupt-check-time", duration(0), Passed, "time between comparisons of the server's memory with the " +
			"database"},
		{"compact-hash-check-time", duration(time.Minute), Passed, "the same after compactions, with the feature " +
			"gate CompactHashCheck"},
	}
}

func logging() []definition {
	return []definition{
		{"logger", text("zap"), Command, "zap"},
		{"log-level", text("info"), Command, "debug, info, warn, error, panic or fatal"},
		{"log-format", text("json"), Command, "json or console"},
		{"log-outputs", newSet(defaultOutput), Command, "default, stderr, stdout, systemd/journal or files"},
		{"enable-log-rotation", boolean(false), Command, "rotate the log file"},
		{"log-rotation-config-json", text(`{"maxsize": 100, "maxage": 0, "maxbackups": 0, "localtime": false, ` +
			`"compress": false}`), Command, "when to rotate, and what to keep"},
	}
}

func tracing() []definition {
	return []definition{
		{"enable-distributed-tracing", boolean(false), Passed, "send traces to a collector of OpenTelemetry"},
		{"distributed-tracing-address", text("localhost:4317"), Passed, "address of the collector, for " +
			"OTLP over gRPC without TLS"},
		{"distributed-tracing-service-name", text("etcd"), Passed, "name of the service in traces"},
		{"distributed-tracing-instance-id", text(""), Passed, "name of this server in traces"},
		{"distributed-tracing-sampling-rate", integer(0), Passed, "traces to begin per million requests; a " +
			"client's trace is continued if the client records it"},
	}
}

func other() []definition {
	return []definition{
		{"watch-progress-notify-interval", duration(0), Passed, "how often idle watches that asked for it get a " +
			"progress notification; 0 is 10 minutes"},
		{"unsafe-no-fsync", boolean(false), Passed, "acknowledge writes before they are on disk; a machine crash may " +
			"lose or damage data"},
		{"compaction-batch-limit", integer(0), Storage, "revisions that a step of a compaction deletes"},
		{"compaction-sleep-interval", duration(0), Storage, "pause between steps of a compaction"},
		{"bootstrap-defrag-threshold-megabytes", unsigned(0), Passed, "free space that makes a start defragment " +
			"SQLite's file; 0 never does"},
		{"downgrade-check-time", duration(5 * time.Second), Raft, "time between checks of a downgrade"},
		{"feature-gates", gates{}, Command, "experimental features: InitialCorruptCheck and CompactHashCheck; the " +
			"others have no effect"},
	}
}

// stageFlag has one of the stages; the first is the default.
const stageFlag = "v2-deprecation"

var stages = []string{"write-only", "write-only-skip-check", "write-only-drop-data", "gone"}

func old() []definition {
	flags := []definition{{stageFlag, &choices{among: stages}, Old, "stage of etcd's second API"}}
	for _, name := range []string{
		"cluster-active-size", "cluster-remove-delay", "cluster-sync-interval", "config", "force",
		"max-result-buffer", "max-retry-attempts", "peer-heartbeat-interval", "peer-election-timeout",
		"retry-interval", "snapshot", "v", "vv", "test.coverprofile", "test.outputdir",
	} {
		flags = append(flags, definition{name, ignored{}, Old, ""})
	}
	return flags
}

func new32(byDefault uint32) *unsigned32 {
	n := unsigned32(byDefault)
	return &n
}

// The outputs of the log that are no files.
const defaultOutput = "default"
