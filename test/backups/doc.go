// Package backups tests the continuous backups of real servers: what they have saved at any moment can be restored,
// whatever kills the server or cuts its uploads.
//
// SQLSTORE_TEST_SEED repeats the random choices of a run.
package backups
