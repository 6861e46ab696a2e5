package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
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

// openBucket opens the bucket that a flag names. Make says whether a directory is made that does not exist.
func openBucket(ctx context.Context, flag, name string, mayMake bool) (*backup.Repository, error) {
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

// openCloud opens a bucket that is no directory.
func openCloud(ctx context.Context, flag, scheme, name string) (_ *backup.Repository, err error) {
	switch scheme {
	case "gs", "azblob":
	case "s3":
		if name, err = withRegion(ctx, name); err != nil {
			return nil, fmt.Errorf("%w: --%s: %w", errSettings, flag, err)
		}
	default: // the name may hold a password
		return nil, fmt.Errorf("%w: --%s has the unknown kind %s://: give %s", errSettings, flag, scheme, bucketForms)
	}
	b, err := blob.OpenBucket(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("%w: --%s: %w; give %s", errSettings, flag, err, bucketForms)
	}
	return &backup.Repository{Bucket: b}, nil
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
