package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"filippo.io/age"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://
	"gocloud.dev/blob/fileblob"
	_ "gocloud.dev/blob/gcsblob" // gs://
	_ "gocloud.dev/blob/s3blob"  // s3://

	"github.com/sqlstore/sqlstore/internal/backup"
)

// bucketForms says how to name a bucket.
const bucketForms = "a directory, file:///path, s3://bucket?region=..., gs://bucket or azblob://container, with " +
	"?prefix=path/ for a part of it"

// openBucket opens the bucket that a flag names. mayMake says whether a directory is made that does not exist.
func openBucket(ctx context.Context, flag, name string, mayMake bool) (*backup.Repository, error) {
	if strings.TrimSpace(name) == "" {
		return nil, fmt.Errorf("%w: --%s has only white space: give %s", errSettings, flag, bucketForms)
	}
	dir := name
	if scheme, _, isURL := strings.Cut(name, "://"); isURL {
		if !strings.EqualFold(scheme, "file") {
			return openCloud(ctx, flag, strings.ToLower(scheme), name)
		}
		u, err := url.Parse(name)
		if err != nil || u.Host != "" || u.Path == "" || u.RawQuery != "" {
			return nil, fmt.Errorf("%w: --%s: write file:///path, with three slashes before the path", errSettings,
				flag)
		}
		dir = u.Path
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if mayMake {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("--%s: %w", flag, err)
		}
	}
	dir = resolvedPath(dir) // package fileblob finds nothing behind a symbolic link
	b, err := fileblob.OpenBucket(dir, &fileblob.Options{
		NoTempDir: true, Metadata: fileblob.MetadataDontWrite, DirFileMode: 0o700,
	})
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return &backup.Repository{Bucket: b, Dir: dir}, nil
}

// bucketURL matches the URL of a bucket in an error's text, without the colon that may follow.
var bucketURL = regexp.MustCompile(`\b(s3|gs|azblob)://\S*[^\s:]`)

// openCloud opens a bucket of a cloud's storage. Its errors do not show the name, which may hold a password.
func openCloud(ctx context.Context, flag, scheme, name string) (*backup.Repository, error) {
	switch scheme {
	case "gs", "azblob", "s3":
	default:
		return nil, fmt.Errorf("%w: --%s has the unknown kind %s://: give %s", errSettings, flag, scheme, bucketForms)
	}
	u, err := parseBucket(name)
	if err == nil && scheme == "s3" {
		err = addRegion(ctx, u)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: --%s: %w", errSettings, flag, err)
	}
	b, err := blob.DefaultURLMux().OpenBucketURL(ctx, u)
	if err != nil {
		text := bucketURL.ReplaceAllLiteralString(err.Error(), bucketName(name, ""))
		return nil, fmt.Errorf("%w: --%s: %s; give %s", errSettings, flag, text, bucketForms)
	}
	return &backup.Repository{Bucket: b}, nil
}

// parseBucket parses the URL of a bucket. The package's own errors show parts of it.
func parseBucket(name string) (*url.URL, error) {
	u, err := url.Parse(name)
	if err == nil {
		_, err = url.ParseQuery(u.RawQuery)
	}
	if err != nil || strings.ContainsAny(name, " \t\r\n") {
		return nil, errors.New("the URL is malformed: encode special characters in its parts, such as / as %2F")
	}
	if u.User != nil {
		return nil, errors.New("a bucket's URL has no user and password: give them as the cloud's own programs take " +
			"them, such as in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	return u, nil
}

// bucketName is what may be shown of a bucket's name: its parameters can hold secrets. dir is as for resolvedBucket.
func bucketName(name, dir string) string {
	u, err := url.Parse(name)
	if dir != "" || err != nil {
		return dir
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if prefix := u.Query().Get("prefix"); prefix != "" {
		shown.RawQuery = "prefix=" + prefix
	}
	return shown.String()
}

// resolvedBucket returns the same text for every spelling of a bucket's name. dir is its directory, "" if it has none.
func resolvedBucket(name, dir string) string {
	if dir != "" {
		return dir
	}
	u, err := url.Parse(name)
	if err != nil {
		return name
	}
	u.Path, u.RawQuery = strings.TrimRight(u.Path, "/"), u.Query().Encode()
	return u.String()
}

// parseRecipients reads what backups are encrypted to: age1..., or a file with one recipient a line.
func parseRecipients(flag string, texts []string) (all []age.Recipient, err error) {
	for _, text := range texts {
		if !strings.HasPrefix(text, "age1") {
			content, err := os.ReadFile(text)
			if err != nil {
				return nil, fmt.Errorf("%w: --%s: neither a recipient that begins with age1, nor a file: %w",
					errSettings, flag, err)
			}
			text = string(content)
		}
		some, err := age.ParseRecipients(strings.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("%w: --%s: %w", errSettings, flag, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// readIdentities reads the files with the keys that decrypt backups.
func readIdentities(flag string, files []string) (all []age.Identity, err error) {
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", flag, err)
		}
		some, err := age.ParseIdentities(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("%w: --%s %s: %w", errSettings, flag, path, err)
		}
		all = append(all, some...)
	}
	return all, nil
}
