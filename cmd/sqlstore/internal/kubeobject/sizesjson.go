package kubeobject

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
)

// errNoObject is returned for JSON that does not begin with an object.
var errNoObject = errors.New("no JSON object")

// fieldReader reads the fields of a value in JSON.
type fieldReader struct {
	*json.Decoder

	value json.RawMessage // the last one read
	sizes Sizes
}

// json adds the fields of an object in JSON.
func (s Sizes) json(value []byte) (apiVersion, kind string, ok bool) {
	r := &fieldReader{Decoder: json.NewDecoder(bytes.NewReader(value)), sizes: s}
	nested := func(name string) bool {
		next := bytes.TrimLeft(value[r.InputOffset():], ": \t\r\n")
		return (name == metadataField || name == annotationsField) && len(next) > 0 && next[0] == '{'
	}
	err := r.fields("", nested, func(name string) {
		switch name {
		case "apiVersion":
			apiVersion = stringOf(r.value)
		case "kind":
			kind = stringOf(r.value)
		}
	})
	if _, end := r.Token(); !errors.Is(end, io.EOF) {
		return "", "", false
	}
	return apiVersion, kind, err == nil && apiVersion != "" && kind != ""
}

// fields adds the sizes of the fields of an object, with their names, and goes into those that are nested. It calls
// found after each other one, whose value it has read.
func (r *fieldReader) fields(above string, nested func(name string) bool, found func(name string)) error {
	if start, err := r.Token(); err != nil || start != json.Delim('{') {
		return errors.Join(errNoObject, err)
	}
	for at := r.InputOffset(); r.More(); at = r.InputOffset() {
		token, err := r.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string) // Token refuses other keys
		name := above + key
		if strings.HasPrefix(name, "(") { // like those of what is no field
			name = strconv.Quote(name)
		}
		if nested(name) {
			err = r.fields(name+".", nested, found)
		} else if err = r.Decode(&r.value); err == nil {
			if strings.HasPrefix(name, annotationsField+".") {
				if name = annotationsField; key == lastAppliedName {
					name = LastApplied
				}
			}
			r.sizes.add(name, r.InputOffset()-at)
			found(name)
		}
		if err != nil {
			return err
		}
	}
	_, err := r.Token()
	return err
}

// stringOf returns a string of JSON, "" for another value.
func stringOf(value json.RawMessage) (s string) {
	_ = json.Unmarshal(value, &s) // leaves it empty
	return s
}
