package sidebyside

import (
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// noWatch is the id of refusals and of answers to progress requests.
const noWatch = -1

// history is the content of a stream's responses, however they were split into messages.
type history struct {
	control []string        // the answers to create and cancel requests, in order
	watches []*watchHistory // in the order of their creation
	broken  []string        // rules that the responses break
	unasked string          // a response with prevKV that was not requested, if any
}

// watchHistory is what one watch received.
type watchHistory struct {
	request *pb.WatchCreateRequest
	id      int64
	events  []sentEvent
	last    int64 // revision of the newest event
	floor   int64 // no further event may be at or below it
	open    bool  // the last response was a fragment, to be continued
	ended   bool
	waiting bool // compaction has ended it, and a cancellation will be confirmed
}

// sentEvent is an event with the revision in the header of its response.
type sentEvent struct {
	*mvccpb.Event
	header int64
	ends   bool // is the last one of its response
}

// read builds the history from the responses to the given create requests. It ignores events above the revision upTo,
// which may not have reached all watches yet.
func read(requests []*pb.WatchCreateRequest, responses []*pb.WatchResponse, upTo int64) *history {
	h := &history{}
	for _, r := range responses {
		switch {
		case r.Created:
			h.created(requests, r)
		case r.Canceled:
			h.canceled(r)
		case r.WatchId == noWatch:
			for _, w := range h.watches {
				w.floor = max(w.floor, r.Header.GetRevision())
			}
		default:
			h.sent(r, upTo)
		}
	}
	return h
}

func (h *history) breaks(r *pb.WatchResponse, rule string) {
	h.broken = append(h.broken, fmt.Sprintf("%s: %s", rule, text(r)))
}

func (h *history) live(id int64) *watchHistory {
	for _, w := range slices.Backward(h.watches) {
		if w.id == id && !w.ended {
			return w
		}
	}
	return nil
}

func (h *history) created(requests []*pb.WatchCreateRequest, r *pb.WatchResponse) {
	h.control = append(h.control, text(normal(r)))
	created := len(h.watches)
	if created >= len(requests) {
		h.breaks(r, "created without a request")
		return
	}
	w := &watchHistory{
		request: requests[created], id: r.WatchId, floor: requests[created].StartRevision - 1,
		ended: r.Canceled,
	}
	if w.request.StartRevision == 0 {
		w.floor = r.Header.GetRevision()
	}
	if len(r.Events) > 0 {
		h.breaks(r, "created with events")
	}
	h.watches = append(h.watches, w) // refusals, too, so that requests and watches correspond
}

func (h *history) canceled(r *pb.WatchResponse) {
	h.control = append(h.control, text(normal(r)))
	if w := h.live(r.WatchId); w != nil {
		w.ended, w.waiting = true, r.CompactRevision != 0
		return
	}
	for _, w := range h.watches {
		if w.id == r.WatchId && w.waiting {
			w.waiting = false
			return
		}
	}
	h.breaks(r, "canceled without a watch")
}

// sent handles a response with events, or the progress of one watch.
func (h *history) sent(r *pb.WatchResponse, upTo int64) {
	w := h.live(r.WatchId)
	if w == nil {
		h.breaks(r, "events for no watch")
		return
	}
	if len(r.Events) == 0 {
		if !w.request.ProgressNotify {
			h.breaks(r, "progress that was not requested")
		}
		w.floor = max(w.floor, r.Header.GetRevision())
		return
	}
	if r.Fragment && !w.request.Fragment {
		h.breaks(r, "fragment that was not requested")
	}
	if first := r.Events[0].Kv.ModRevision; first == w.last && !w.open {
		h.breaks(r, "revision split over responses")
	}
	w.open = r.Fragment
	for i, e := range r.Events {
		if e.PrevKv != nil && !w.request.PrevKv {
			h.unasked = "prevKV that was not requested: " + text(r)
		}
		switch rev := e.Kv.ModRevision; {
		case rev <= w.floor:
			h.breaks(r, fmt.Sprintf("event at or below %d, which the start or a progress answer excludes", w.floor))
		case rev < w.last:
			h.breaks(r, "revisions out of order")
		case rev > r.Header.GetRevision():
			h.breaks(r, "event above its header's revision")
		}
		w.last = max(w.last, e.Kv.ModRevision)
		if e.Kv.ModRevision <= upTo {
			w.events = append(w.events, sentEvent{e, r.Header.GetRevision(), i == len(r.Events)-1})
		}
	}
}

// differHistories returns "" if both streams received the same, otherwise the first difference. etcd's watches share
// events, so that a watch without prev_kv sometimes receives one that another watch requested: an unrequested prevKV
// counts against the target only.
func differHistories(etcd, target *history, borders map[int64]bool) string {
	if len(etcd.broken) > 0 {
		return "etcd breaks a rule (is the test wrong?): " + etcd.broken[0]
	}
	if len(target.broken) > 0 {
		return "target breaks a rule: " + target.broken[0]
	}
	if target.unasked != "" && !servers.TargetIsEtcd() {
		return "target breaks a rule: " + target.unasked
	}
	for i := range max(len(etcd.control), len(target.control)) {
		if x, y := at(etcd.control, i), at(target.control, i); x != y {
			return fmt.Sprintf("control answer %d\netcd:   %s\ntarget: %s", i, x, y)
		}
	}
	for i, x := range etcd.watches {
		y := target.watches[i] // of the same length, as the control answers are equal
		for j := range max(len(x.events), len(y.events)) {
			a, b := eventAt(x, j, borders), eventAt(y, j, borders)
			if a != b {
				return fmt.Sprintf("watch %d (%s), event %d\netcd:   %s\ntarget: %s", x.id, text(x.request), j, a, b)
			}
			// A response may hold several revisions, and not the same ones on both servers.
			if a, b := x.events[j], y.events[j]; b.ends && a.header != b.header {
				return fmt.Sprintf("watch %d (%s), event %d of revision %d: its header\netcd:   %d\ntarget: %d",
					x.id, text(x.request), j, a.Kv.ModRevision, a.header, b.header)
			}
		}
	}
	return ""
}

func eventAt(w *watchHistory, i int, borders map[int64]bool) string {
	if i >= len(w.events) {
		return "nothing"
	}
	e := w.events[i].Event
	if e.PrevKv != nil && (!w.request.PrevKv || borders[e.Kv.ModRevision]) {
		e = proto.Clone(e).(*mvccpb.Event)
		e.PrevKv = nil
	}
	return text(e)
}

func at(list []string, i int) string {
	if i >= len(list) {
		return "nothing"
	}
	return list[i]
}
