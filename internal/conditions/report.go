package conditions

import "time"

// Report is what a server answers at /status. Revisions and members are those of the moment, 0 and "" before the database is open.
type Report struct {
	// Name is the member's name, Version sqlstore's, EtcdVersion that of the API served.
	Name        string `json:"name"`
	Version     string `json:"version"`
	EtcdVersion string `json:"etcdVersion"`
	// Time is the server's clock, by which the age of a condition is told.
	Time time.Time `json:"time"`
	// Generation is the newest generation of the configuration that was asked for.
	Generation int64       `json:"generation"`
	Conditions []Condition `json:"conditions"`

	// Datastore names the database, without secrets.
	Datastore string `json:"datastore"`
	// Revision is the last one published on this server, Compacted the oldest that can be read.
	Revision  int64 `json:"revision"`
	Compacted int64 `json:"compacted"`
	// Member and Leader are ids as etcd writes them, in hexadecimal. Leader is the replica that has the maintenance lease; Members
	// counts the replicas that live.
	Member  string `json:"member"`
	Leader  string `json:"leader"`
	Members int    `json:"members"`
	// Compaction is the state of the compactor, in one line.
	Compaction string `json:"compaction"`
}
