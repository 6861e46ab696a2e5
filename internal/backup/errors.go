package backup

import "errors"

// Errors of reading a bucket.
var (
	// ErrNone is returned if the bucket holds no backup, or none that covers what is asked for.
	ErrNone = errors.New("no such backup")
	// ErrSeveral is returned if several stores have backups of the point to restore.
	ErrSeveral = errors.New("the bucket has backups of several stores")
	// ErrMissing is returned if what is asked for is behind changes whose files are missing.
	ErrMissing = errors.New("files of a backup are missing")
	// ErrDamaged is returned for a file that is not what was written: cut off, or changed.
	ErrDamaged = errors.New("a backup's file is damaged")
	// ErrKey is returned for an encrypted file if none of the identities can decrypt it.
	ErrKey = errors.New("a backup's file is encrypted, and none of the identities given decrypts it")
	// ErrNewer is returned for a file in a format that this version does not know.
	ErrNewer = errors.New("a backup's file was written by a newer version: upgrade sqlstore")
)
