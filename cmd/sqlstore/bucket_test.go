package main

import "testing"

// What is shown of a bucket's name has no secrets.
func TestBucketName(t *testing.T) {
	for name, want := range map[string]string{
		"s3://b?region=a&endpoint=http://user:secret@host&prefix=p/": "s3://b?prefix=p/",
		"azblob://c?sas=secret":  "azblob://c",
		"gs://user:secret@b/sub": "gs://b/sub",
	} {
		if got := bucketName(name, ""); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if got := bucketName("file:///b", "/b"); got != "/b" {
		t.Error(got)
	}
}

// No error about a bucket shows its name, which may hold a password.
func TestErrorsOfBuckets(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-1")
	for name, want := range map[string]string{
		"s3://user:secret@b":                                       "has no user and password",
		"azblob://user:secret@c":                                   "has no user and password",
		"gs://user:sec/secret@b":                                   "malformed",
		"s3://b?endpoint=http://u:secret%zz@host":                  "malformed",
		"gs://b?a=secret;b":                                        "malformed",
		"s3://b?unknown=x&endpoint=http://u:secret@host&prefix=p/": "open bucket s3://b?prefix=p/: ",
		"s3://b?endpoint=http://u:sec secret@h&zz=1":               "malformed",
		"gs://b?unknown=secret":                                    "open bucket gs://b: ",
		"azblob://c?unknown=secret":                                "",
		" ":                                                        "has only white space",
	} {
		_, err := openBucket(t.Context(), "backup-to", name, false)
		checkHint(t, name, err, want)
		checkHint(t, name, err, "--backup-to")
	}
}
