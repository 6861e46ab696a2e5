// Package backup saves a store, and then every few seconds what was committed since, in a bucket: a directory, S3, GCS
// or Azure. A store can be restored at every revision and time between the oldest full backup and the newest file.
//
// A bucket holds chains. A chain is a folder with one full backup and the changes since, each in a file that is named
// after the last revision that it covers, and its time:
//
//	20261125T171300Z-8e9d4c5b6a7f1023/0000000000000001234-full-20261125T171300.123Z.zst
//	20261125T171300Z-8e9d4c5b6a7f1023/0000000000000001299-after-0000000000000001234-20261125T171305.120Z.zst
//
// The chain's name has the time at which it begins and the cluster's id, so that stores can share a bucket.
//
// Files never change. A file appears in the bucket only when it is complete, and ends with a SHA-256 of everything
// before, so that a kill or a power cut at any moment leaves everything restorable up to the last file.
//
// A chain covers one history: if history was lost or rewritten, or if rows were compacted before they were saved, a new
// chain begins. Several replicas may write to one chain by mistake, for example while one of them is frozen. Their
// files overlap, and a reader skips what it has already read.
package backup
