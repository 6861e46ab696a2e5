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
