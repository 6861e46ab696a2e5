package main

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"
)

// An S3 server of one's own needs no region, and a bucket of AWS without one is refused before the first request.
func TestRegion(t *testing.T) {
	for _, name := range []string{
		"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3",
	} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	const own = "s3://b?endpoint=http://127.0.0.1:9000&use_path_style=true"
	for name, want := range map[string]string{
		own:                              "&region=us-east-1&",
		own + "&region=eu-1":             "&region=eu-1",
		"s3://b?region=eu-1&prefix=a/":   "s3://b?region=eu-1&prefix=a/",
		"s3://b?endpoint=http://h&fips=": "&region=us-east-1",
	} {
		if got := completed(t, name); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	_, err := openBucket(t.Context(), "from", "s3://b", false)
	checkHint(t, "without a region", err, "--from: the bucket's region is not known: add region=")
	t.Setenv("AWS_REGION", "eu-2")
	if got := completed(t, own); got != own {
		t.Errorf("with AWS_REGION: %s", got)
	}
}

// completed returns the URL of an S3 bucket with its region.
func completed(t *testing.T, name string) string {
	t.Helper()
	u, err := url.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := addRegion(t.Context(), u); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return u.String()
}
