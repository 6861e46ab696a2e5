package paging

import (
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"

	"golang.org/x/crypto/chacha20poly1305"
)

// A token is base64url without padding of
//
//	version (1 byte) | key id (8) | nonce (24) | sealed (24 or more) | tag (16)
//
// where the sealed part, encrypted with XChaCha20-Poly1305, is
//
//	epoch (8) | revision (8, 0: the latest) | rows from the start key on (8, -1: unknown) |
//	start key without the prefix
//
// All numbers are big-endian. The additional data is the version, the key's id and the list's prefix: a token opens
// only for its own list, and its start key cannot lie outside that list.
const (
	tokenVersion = 1
	tokenHeader  = 1 + 8
	tokenNumbers = 3 * 8
	tokenLeast   = tokenHeader + chacha20poly1305.NonceSizeX + tokenNumbers + chacha20poly1305.Overhead
)

// place is where a list continues.
type place struct {
	epoch    int64  // that revision belongs to
	revision int64  // of the list's rows; 0 is the latest
	rest     int64  // rows from start on at revision, -1 if unknown
	start    string // first key to read, without the list's prefix
}

const (
	latest  = 0
	unknown = -1
)

// seal makes a token for a place in the list of a prefix.
func seal(id int64, key cipher.AEAD, prefix string, p place) string {
	head := header(id)
	nonce := random(chacha20poly1305.NonceSizeX)
	contents := make([]byte, 0, tokenNumbers+len(p.start))
	for _, n := range []int64{p.epoch, p.revision, p.rest} {
		contents = binary.BigEndian.AppendUint64(contents, uint64(n))
	}
	contents = append(contents, p.start...)
	out := append(head, nonce...)
	return base64.RawURLEncoding.EncodeToString(key.Seal(out, nonce, contents, append(header(id), prefix...)))
}

// random returns n random bytes. It never fails: see [rand.Read].
func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

func header(id int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{tokenVersion}, uint64(id))
}

// sealed is a token as received. Nothing in it can be trusted until it is opened.
type sealed struct {
	id    int64
	bytes []byte
}

// parse splits a token; ok is false for one that was certainly not sealed here.
func parse(token string) (s sealed, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	// A token that decodes but differs from our encoding has been modified: line breaks, or bits after the last byte.
	if err != nil || len(raw) < tokenLeast || raw[0] != tokenVersion ||
		base64.RawURLEncoding.EncodeToString(raw) != token {
		return sealed{}, false
	}
	return sealed{id: int64(binary.BigEndian.Uint64(raw[1:])), bytes: raw}, true
}

// open returns where the list of a prefix continues; ok is false for a token that was not sealed for it with this key.
func (s sealed) open(key cipher.AEAD, prefix string) (p place, ok bool) {
	nonce, box := s.bytes[tokenHeader:tokenHeader+chacha20poly1305.NonceSizeX],
		s.bytes[tokenHeader+chacha20poly1305.NonceSizeX:]
	contents, err := key.Open(nil, nonce, box, append(header(s.id), prefix...))
	if err != nil {
		return place{}, false
	}
	number := func(i int) int64 { return int64(binary.BigEndian.Uint64(contents[8*i:])) }
	p = place{epoch: number(0), revision: number(1), rest: number(2), start: string(contents[tokenNumbers:])}
	return p, p.revision >= 0
}
