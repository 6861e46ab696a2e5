// Package backups tests the continuous backups of real servers: what they have saved at any moment can be restored,
// whatever kills the server or cuts its uploads. It is a separate module because of what it starts.
//
//	s3/   an S3 server, a module of its own, as its dependencies must not meet sqlstore's
//
// SQLSTORE_TEST_SEED repeats the random choices of a run.
package backups
