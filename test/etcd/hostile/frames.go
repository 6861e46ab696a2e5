package hostile

import (
	"bytes"
	"context"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

func frameAbuses() []abuse {
	flood := func(step func(*framed) error) func(context.Context, *target, int) (int, error) {
		return func(ctx context.Context, t *target, n int) (int, error) { return t.flood(ctx, n, step) }
	}
	return []abuse{
		{
			name: "SETTINGS", short: 100_000, full: 2_000_000,
			attack: flood(func(f *framed) error { return f.WriteSettings() }),
		},
		{name: "SETTINGS that change the window", short: 100_000, full: 2_000_000, attack: flood(func(f *framed) error {
			f.next++
			return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: f.next})
		})},
		{
			name: "PING", short: 100_000, full: 2_000_000,
			attack: flood(func(f *framed) error { return f.WritePing(false, [8]byte{}) }),
		},
		{
			name: "WINDOW_UPDATE", short: 100_000, full: 2_000_000,
			attack: flood(func(f *framed) error { return f.WriteWindowUpdate(0, 1) }),
		},
		{name: "PRIORITY", short: 100_000, full: 2_000_000, attack: flood(func(f *framed) error {
			f.next += 2
			return f.WritePriority(f.next, http2.PriorityParam{StreamDep: 1})
		})},
		{name: "DATA without bytes", short: 100_000, full: 2_000_000, attack: flood(func(f *framed) error {
			if f.next == 1 {
				if _, err := f.call(pb.KV_Range_FullMethodName, nil, false); err != nil {
					return err
				}
			}
			return f.WriteData(1, false, nil)
		})},
		{
			name: "frames of unknown types", short: 100_000, full: 2_000_000,
			attack: flood(func(f *framed) error { return f.WriteRawFrame(0xee, 0, 1, []byte("?")) }),
		},
		{name: "CONTINUATION", short: 100_000, full: 2_000_000, attack: flood(continuation)},
		{name: "HEADERS, reset at once", short: 60_000, full: 560_000, attack: flood(func(f *framed) error {
			id, err := f.call(pb.KV_Range_FullMethodName, nil, false)
			if err != nil {
				return err
			}
			return f.WriteRSTStream(id, http2.ErrCodeCancel)
		})},
		{name: "HEADERS that unfold", short: 200, full: 4_000, attack: unfolding},
		// A call takes 11 KiB, 8 of them its goroutine's stack. --max-concurrent-streams bounds their number.
		{
			name: "calls that never send their message", short: 20_000, full: 50_000, lingers: true, keeps: 24 << 20,
			peak: 640 << 20, attack: flood(func(f *framed) error {
				_, err := f.call(pb.KV_Range_FullMethodName, []byte{0, 0, 0, 1, 0, 'x'}, false)
				return err
			}),
		},
		{name: "calls of unknown methods", short: 50_000, full: 500_000, attack: flood(func(f *framed) error {
			_, err := f.call("/no.Such/Method", []byte{0, 0, 0, 0, 0}, true)
			return err
		})},
	}
}

// continuation continues a header block that has no end.
func continuation(f *framed) error {
	if f.next == 1 {
		f.next++
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers(pb.KV_Range_FullMethodName)})
	}
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	e.SetMaxDynamicTableSize(0)
	_ = e.WriteField(hpack.HeaderField{Name: "x-more", Value: "x"}) // a Buffer takes everything
	return f.WriteContinuation(1, false, block.Bytes())
}

// unfolding sends header blocks of a few KiB that name one long field over and over.
func unfolding(ctx context.Context, t *target, n int) (int, error) {
	return t.flood(ctx, n, func(f *framed) error {
		var block bytes.Buffer
		e := hpack.NewEncoder(&block)
		field := hpack.HeaderField{Name: "x-long", Value: strings.Repeat("x", 3<<10)}
		for range 4_000 { // the first one goes into the table, the others refer to it
			_ = e.WriteField(field) // a Buffer takes everything
		}
		id := f.next
		f.next += 2
		return f.WriteHeaders(http2.HeadersFrameParam{
			StreamID:      id,
			BlockFragment: append(bytes.Clone(headers(pb.KV_Range_FullMethodName)), block.Bytes()...), EndHeaders: true,
			EndStream: true,
		})
	})
}
