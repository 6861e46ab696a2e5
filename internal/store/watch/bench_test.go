package watch

import (
	"context"
	"fmt"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// BenchmarkPublish measures the path of one change through the hub to those of 100 streams that watch its key. It
// includes the row's item, which the engine makes.
func BenchmarkPublish(b *testing.B) {
	for _, interested := range []int{0, 1, 100} {
		b.Run(fmt.Sprintf("%d of 100", interested), func(b *testing.B) {
			m := open(b, Config{})
			var streams []*Stream
			for i := range 100 {
				st := newStream(b, m)
				req := Request{
					Key: fmt.Appendf(nil, "/other/%d/", i), End: fmt.Appendf(nil, "/other/%d0", i),
					PrevKV: true,
				}
				if i < interested {
					req.Key, req.End = []byte("/registry/"), []byte("/registry0")
					streams = append(streams, st)
				}
				created(b, st, req)
			}
			row := backend.Row{Key: []byte("/registry/pods/default/one"), Value: make([]byte, 1000), ModRevision: 1}
			items, prevs := []*index.Item{index.NewItem(row)}, make([]*index.Item, 1)
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				prevs[0] = items[0]
				row.ModRevision++
				items[0] = index.NewItem(row)
				m.Publish(items, prevs, row.ModRevision, 0)
				for _, st := range streams {
					if r, err := st.Next(ctx); err != nil || len(r.Events) != 1 {
						b.Fatal(r, err)
					}
				}
			}
		})
	}
}
