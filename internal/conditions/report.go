package conditions

import "time"

// Report is a server's answer at /status. Revisions and members are current; they are 0 and "" until the database is
// open.
type Report struct {
	// Name is the name of the member, Version that of sqlstore, EtcdVersion that of the etcd API.
	Name        string `json:"name"`
	Version     string `json:"version"`
	EtcdVersion string `json:"etcdVersion"`
	// Time is the server's clock, for the age of a condition.
	Time time.Time `json:"time"`
	// Generation is the newest generation of the configuration, accepted or not.
	Generation int64       `json:"generation"`
	Conditions []Condition `json:"conditions"`

	// Datastore names the database, without secrets.
	Datastore string `json:"datastore"`
	// Revision is the last one published on this server, Compacted the oldest that can be read.
	Revision  int64 `json:"revision"`
	Compacted int64 `json:"compacted"`
	// Member and Leader are ids in hexadecimal, as etcd writes them. Leader is the replica that holds the maintenance
	// lease; Members counts the live replicas.
	Member  string `json:"member"`
	Leader  string `json:"leader"`
	Members int    `json:"members"`
	// Compaction is the state of the compactor, in one line.
	Compaction string `json:"compaction"`
}
