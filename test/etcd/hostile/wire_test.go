package hostile

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/net/http2"
)

// connect opens a TCP connection that closes at the end of the test.
func connect(t *testing.T, v *victim) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", v.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Connections that do not speak HTTP/2, or stop in the middle of it.
func TestMalformedConnections(t *testing.T) {
	v := startVictim(t)
	r := random(t)
	preface := []byte(http2.ClientPreface)
	for name, raw := range map[string][]byte{
		"nothing":        nil,
		"half a preface": preface[:10],
		"HTTP/1 garbage": []byte("GET \x00\xff HTTP/9.9\r\n\r\n"),
		"HTTP/1 to a gRPC path": []byte("POST /etcdserverpb.KV/Range HTTP/1.1\r\nHost: x\r\nContent-Length: " +
			"1000000\r\n\r\nabc"),
		"endless HTTP/1 header":        append([]byte("GET / HTTP/1.1\r\nX: "), bytes.Repeat([]byte("x"), 4<<20)...),
		"garbage":                      bytes.Repeat(garbage(r), 50),
		"preface and garbage":          append(bytes.Clone(preface), bytes.Repeat(garbage(r), 50)...),
		"preface and an endless frame": append(bytes.Clone(preface), 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1),
		"TLS hello":                    {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				conn := connect(t, v)
				_ = conn.SetWriteDeadline(time.Now().Add(promptly))
				_, _ = conn.Write(raw) // the server may hang up in between
			}
			v.healthy(t)
		})
	}
}

// Frames that are valid one by one but make no sense together.
func TestMalformedStreams(t *testing.T) {
	for name, attack := range map[string]func(*http2.Framer){
		"data on no stream": func(f *http2.Framer) { _ = f.WriteData(7, true, []byte("x")) },
		"window overflow": func(f *http2.Framer) {
			_ = writeRequest(f, 1, nil)
			_ = f.WriteWindowUpdate(1, 1<<31-1)
			_ = f.WriteWindowUpdate(1, 1<<31-1)
		},
		"message that announces 4 GiB": func(f *http2.Framer) {
			_ = writeRequest(f, 1, binary.BigEndian.AppendUint32([]byte{0}, 1<<32-1))
		},
		"message that never comes": func(f *http2.Framer) {
			for id := uint32(1); id < 100; id += 2 {
				_ = writeRequest(f, id, []byte{0, 0, 0, 1, 0, 'x'})
			}
		},
		"compressed without a codec": func(f *http2.Framer) { _ = writeRequest(f, 1, []byte{1, 0, 0, 0, 1, 'x'}) },
	} {
		t.Run(name, func(t *testing.T) {
			v := startVictim(t)
			conn := connect(t, v)
			_ = conn.SetDeadline(time.Now().Add(promptly))
			go func() { _, _ = io.Copy(io.Discard, conn) }() // otherwise flow control stops the server
			if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
				t.Fatal(err)
			}
			f := http2.NewFramer(conn, conn)
			f.AllowIllegalWrites = true
			if err := f.WriteSettings(); err != nil {
				t.Fatal(err)
			}
			attack(f)
			v.healthy(t)
		})
	}
}

// writeRequest opens a stream with a Range call and sends the beginning of its body.
func writeRequest(f *http2.Framer, id uint32, body []byte) error {
	if err := f.WriteHeaders(http2.HeadersFrameParam{
		StreamID: id, BlockFragment: headers(pb.KV_Range_FullMethodName),
		EndHeaders: true,
	}); err != nil {
		return err
	}
	if body == nil {
		return nil
	}
	return f.WriteData(id, false, body)
}
