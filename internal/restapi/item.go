package restapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sqlstore/sqlstore/internal/store"
)

// maxDepth is the maximum nesting of JSON that is embedded. Many parsers fail, or worse, between 100 and 1,000: one
// value must not make a list unreadable for them.
const maxDepth = 100

// form is how values are shown.
type form struct {
	oneLine bool // JSON has no line breaks
	base64  bool // JSON, too
}

// appendItem appends an object as JSON.
func appendItem(b []byte, r *store.Row, as form) []byte {
	b = appendMetadata(b, r.Key, r.ModRevision, r.CreateRevision, r.Lease)
	b = append(b, ',')
	b = appendValue(b, r.Value, as)
	return append(b, '}')
}

// appendMetadata appends an object up to and including its metadata, without the closing brace. lease is 0 for none.
func appendMetadata(b, key []byte, version, created, lease int64) []byte {
	b = appendBytes(append(b, `{"metadata":{`...), "key", key)
	cut := bytes.LastIndexByte(key, '/') + 1
	b = append(b, `,"namespace":`...)
	b = appendString(b, key[:cut])
	b = append(b, `,"name":`...)
	b = appendString(b, key[cut:])
	b = append(b, `,"resourceVersion":"`...)
	b = strconv.AppendInt(b, version, 10)
	b = append(b, `","createRevision":"`...)
	b = strconv.AppendInt(b, created, 10)
	if lease != 0 {
		b = appendLeaseID(append(b, `","lease":"`...), lease)
	}
	return append(b, `"}`...)
}

// appendBytes appends a member with a text of any bytes, and, if they are not UTF-8, one with their base64.
func appendBytes(b []byte, name string, text []byte) []byte {
	b = append(append(append(b, '"'), name...), `":`...)
	b = appendString(b, text)
	if !utf8.Valid(text) {
		b = append(append(append(b, `,"`...), name...), `Base64":"`...)
		b = base64.StdEncoding.AppendEncode(b, text)
		b = append(b, '"')
	}
	return b
}

// appendValue appends the member that holds a value.
func appendValue(b, value []byte, as form) []byte {
	if as.base64 || !isJSON(value) {
		b = append(b, `"valueBase64":"`...)
		b = base64.StdEncoding.AppendEncode(b, value)
		return append(b, '"')
	}
	b = append(b, `"value":`...)
	from := len(b)
	b = append(b, value...)
	if as.oneLine && bytes.ContainsAny(value, "\n\r") { // between tokens: inside strings they are escaped
		for i := from; i < len(b); i++ {
			if b[i] == '\n' || b[i] == '\r' {
				b[i] = ' '
			}
		}
	}
	return b
}

// isJSON reports whether a value can be embedded as JSON.
func isJSON(value []byte) bool {
	return json.Valid(value) && utf8.Valid(value) && !deeper(value, maxDepth)
}

// deeper reports whether valid JSON is nested more than limit deep.
func deeper(value []byte, limit int) bool {
	if bytes.Count(value, []byte{'{'})+bytes.Count(value, []byte{'['}) <= limit {
		return false
	}
	depth, inString := 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > limit {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string; invalid UTF-8 becomes U+FFFD.
func appendString(b, s []byte) []byte {
	b = append(b, '"')
	if !utf8.Valid(s) {
		s = bytes.ToValidUTF8(s, []byte("\uFFFD"))
	}
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20 || c == 0x7f:
			b = append(b, `\u00`...)
			b = append(b, hexDigits[c>>4], hexDigits[c&0xf])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// shown returns a key, or a part of one, as appendString writes it.
func shown(s []byte) string { return strings.ToValidUTF8(string(s), "\uFFFD") }
