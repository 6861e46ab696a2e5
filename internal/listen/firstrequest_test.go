package listen_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/credentials"

	"github.com/sqlstore/sqlstore/internal/listen"
	"github.com/sqlstore/sqlstore/internal/testing/authority"
)

// Clients that offer only HTTP/2 reach both servers, which see their certificates.
func TestOnlyHTTP2(t *testing.T) {
	a := authority.New(t)
	b := serveMode(t, listen.Mode{TLS: tlsConfig(t, a, true), ByRequest: true})
	config := &tls.Config{RootCAs: a.Pool(), Certificates: []tls.Certificate{a.Pair("alice")}}
	b.check(t, credentials.NewTLS(config))
	info, ok := b.peer().AuthInfo.(credentials.TLSInfo)
	if !ok || info.State.VerifiedChains[0][0].Subject.CommonName != "alice" {
		t.Errorf("the gRPC server does not see its client's certificate: %+v", b.peer().AuthInfo)
	}
	transport := &http.Transport{TLSClientConfig: config, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP2(true)
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for range 2 { // on one connection
		if got := get(t, transport, "https://"+b.addr); got != "HTTP/2.0 true" {
			t.Errorf("got %q", got)
		}
	}
	// More than any window allows at once.
	body := bytes.NewReader(make([]byte, 8<<20))
	resp, err := client.Post("https://"+b.addr, "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) != "HTTP/2.0 true 8388608" {
		t.Errorf("got %q, %v", got, err)
	}
}

// rawClient speaks HTTP/2 frame by frame.
type rawClient struct {
	*http2.Framer
	t    *testing.T
	conn *tls.Conn
	// settings and acks count the server's SETTINGS frames.
	settings, acks int
}

func dialRaw(t *testing.T, addr string, config *tls.Config) *rawClient {
	t.Helper()
	config.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", addr, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := &rawClient{Framer: http2.NewFramer(conn, conn), t: t, conn: conn}
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	c.must(c.WriteSettings())
	return c
}

func (c *rawClient) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// request sends GET / with some more headers.
func (c *rawClient) request(stream uint32, more ...hpack.HeaderField) {
	c.t.Helper()
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, h := range append([]hpack.HeaderField{
		{Name: ":method", Value: "GET"},
		{Name: ":scheme", Value: "https"},
		{Name: ":authority", Value: "x"},
		{Name: ":path", Value: "/"},
	}, more...) {
		c.must(e.WriteField(h))
	}
	for first := true; first || block.Len() > 0; first = false {
		fragment := block.Next(16 << 10)
		if first {
			c.must(c.WriteHeaders(http2.HeadersFrameParam{
				StreamID: stream, BlockFragment: fragment, EndStream: true, EndHeaders: block.Len() == 0,
			}))
		} else {
			c.must(c.WriteContinuation(stream, block.Len() == 0, fragment))
		}
	}
}

// until reads frames up to one that satisfies want. acknowledge makes it answer SETTINGS.
func (c *rawClient) until(acknowledge bool, want func(http2.Frame) bool) {
	c.t.Helper()
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			c.t.Fatal(err)
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if f.IsAck() {
				c.acks++
				break
			}
			c.settings++
			if acknowledge {
				c.must(c.WriteSettingsAck())
			}
		case *http2.GoAwayFrame:
			c.t.Fatalf("the server ends the connection: %s %s", f.ErrCode, f.DebugData())
		}
		if want(frame) {
			return
		}
	}
}

func answered(stream uint32) func(http2.Frame) bool {
	return func(f http2.Frame) bool {
		h, ok := f.(*http2.MetaHeadersFrame)
		return ok && h.StreamID == stream && h.PseudoValue("status") == "200"
	}
}

// The server sends its settings at once, answers pings, and accepts that the client acknowledges the settings before or
// after its first request. It acknowledges the client's exactly once.
func TestOpenHTTP2(t *testing.T) {
	a := authority.New(t)
	b := serveMode(t, listen.Mode{TLS: tlsConfig(t, a, false), ByRequest: true})
	isSettings := func(f http2.Frame) bool {
		s, ok := f.(*http2.SettingsFrame)
		return ok && !s.IsAck()
	}
	isPong := func(f http2.Frame) bool {
		p, ok := f.(*http2.PingFrame)
		return ok && p.IsAck()
	}
	for name, open := range map[string]func(*rawClient){
		"waits for settings": func(c *rawClient) { c.until(true, isSettings) },
		"acknowledges late":  func(c *rawClient) { c.until(false, isSettings) },
		"pings": func(c *rawClient) {
			for i := range byte(3) {
				c.must(c.WritePing(false, [8]byte{i}))
				c.until(true, isPong)
			}
		},
		"does not wait": func(*rawClient) {},
	} {
		t.Run(name, func(t *testing.T) {
			c := dialRaw(t, b.addr, &tls.Config{RootCAs: a.Pool()})
			open(c)
			before := c.settings
			c.request(1)
			if name == "acknowledges late" {
				c.must(c.WriteSettingsAck())
			}
			c.until(true, answered(1))
			c.must(c.WritePing(false, [8]byte{}))
			c.until(true, isPong)
			c.request(3)
			c.until(true, answered(3))
			if c.settings != 2 || c.acks != 1 {
				t.Errorf("%d SETTINGS frames, %d of them before the request, and %d acknowledgements; want 2 and 1",
					c.settings, before, c.acks)
			}
		})
	}
}

// A connection whose beginning is too long to find the first request goes to the gRPC server, as a whole.
func TestLongOpening(t *testing.T) {
	a := authority.New(t)
	b := serveMode(t, listen.Mode{TLS: tlsConfig(t, a, false), ByRequest: true})
	c := dialRaw(t, b.addr, &tls.Config{RootCAs: a.Pool()})
	c.request(1, hpack.HeaderField{Name: "long", Value: strings.Repeat("~", 100<<10)})
	c.until(true, func(f http2.Frame) bool {
		h, ok := f.(*http2.MetaHeadersFrame)
		return ok && h.PseudoValue("status") != "200" // gRPC's answer to a GET
	})
}

// A client that announces a large frame must not make the server allocate memory for it.
func TestAnnouncedFrame(t *testing.T) {
	a := authority.New(t)
	b := serveMode(t, listen.Mode{TLS: tlsConfig(t, a, false), ByRequest: true})
	c := dialRaw(t, b.addr, &tls.Config{RootCAs: a.Pool()})
	if _, err := c.conn.Write([]byte{0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1}); err != nil { // of DATA
		t.Fatal(err)
	}
	for {
		frame, err := c.ReadFrame() // although the frame has not arrived
		if err != nil {
			return
		}
		if f, ok := frame.(*http2.GoAwayFrame); ok {
			if f.ErrCode != http2.ErrCodeFrameSize {
				t.Errorf("the connection ends with %s", f.ErrCode)
			}
			return
		}
	}
}

// The first settings have the limit of streams, so that no client opens more.
func TestMaxStreams(t *testing.T) {
	a := authority.New(t)
	b := serveMode(t, listen.Mode{TLS: tlsConfig(t, a, false), ByRequest: true, MaxStreams: 4})
	c := dialRaw(t, b.addr, &tls.Config{RootCAs: a.Pool()})
	c.until(true, func(f http2.Frame) bool {
		s, ok := f.(*http2.SettingsFrame)
		if !ok || s.IsAck() {
			return false
		}
		if n, ok := s.Value(http2.SettingMaxConcurrentStreams); !ok || n != 4 {
			t.Errorf("the limit is %d, %v", n, ok)
		}
		return true
	})
}

// Close does not wait for the first request.
func TestCloseBeforeRequest(t *testing.T) {
	a := authority.New(t)
	b := serveMode(t, listen.Mode{TLS: tlsConfig(t, a, false), ByRequest: true})
	c := dialRaw(t, b.addr, &tls.Config{RootCAs: a.Pool()})
	c.until(true, func(http2.Frame) bool { return c.settings > 0 })
	if err := b.split.Close(); err != nil {
		t.Error(err)
	}
}
