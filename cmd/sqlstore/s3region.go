package main

import (
	"context"
	"errors"
	"net/url"
	"os"

	"gocloud.dev/aws"
)

// defaultRegion is what S3 servers other than AWS expect, unless their operator has chosen another one.
const defaultRegion = "us-east-1"

// addRegion completes the URL of an S3 bucket by a region. The requests are signed for one, so without it every request
// fails.
func addRegion(ctx context.Context, u *url.URL) error {
	given, known := u.Query(), url.Values{}
	for _, parameter := range []string{"region", "profile"} {
		if given.Has(parameter) {
			known[parameter] = given[parameter]
		}
	}
	cfg, err := aws.V2ConfigFromURLParams(ctx, known)
	if err != nil || cfg.Region != "" {
		return err
	}
	if !given.Has("endpoint") && cfg.BaseEndpoint == nil && os.Getenv("AWS_ENDPOINT_URL_S3") == "" {
		return errors.New("the bucket's region is not known: add region=eu-central-1, or the one that it is in, to " +
			"the URL, or set AWS_REGION")
	}
	given.Set("region", defaultRegion)
	u.RawQuery = given.Encode()
	return nil
}
