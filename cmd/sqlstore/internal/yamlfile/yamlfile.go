// Package yamlfile reads configuration files.
package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// ErrDocuments is returned for a file with more than one document. Nothing would read those after the first one.
var ErrDocuments = errors.New("only one YAML document is read")

// Parse returns the values of a file by their keys. Errors: [ErrDocuments], those of YAML.
func Parse(text []byte) (map[string]yaml.Node, error) {
	values := map[string]yaml.Node{}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&values); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var next yaml.Node
	switch err := decoder.Decode(&next); {
	case errors.Is(err, io.EOF):
		return values, nil
	case err != nil:
		return nil, err
	}
	return nil, fmt.Errorf("line %d: %w: remove this line, or move what follows it to a file of its own", next.Line,
		ErrDocuments)
}
