package history

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// Linearizable checks with porcupine that each key's history is that of a register with compare-and-swap, in at most
// the given time in total. It knows only the revisions that clients compared with, and whether a write without an
// answer ever took effect.
func Linearizable(base Base, ops []*Op, fate Fate, bound time.Duration) error {
	deadline := time.Now().Add(bound)
	for key, history := range byKey(base, ops, fate) {
		initial := ""
		if e, ok := base[key]; ok && !e.Deleted {
			initial = e.Value
		}
		model := register
		model.Init = func() any { return initial }
		switch porcupine.CheckOperationsTimeout(model, history, max(time.Until(deadline), time.Millisecond)) {
		case porcupine.Illegal:
			return fmt.Errorf("the history of key %q, %d operations, is not linearizable", key, len(history))
		case porcupine.Unknown:
			return fmt.Errorf("the history of key %q, %d operations, was not decided within %v", key,
				len(history), bound)
		}
	}
	return nil
}

// step is what one operation did to one key.
type step struct {
	kind  Kind
	value string // that a write puts
	old   string // that a Swap compares with: the value that its client had read
}

type result struct {
	outcome Outcome
	found   string // empty for absent
}

// register is a key: its state is its value, empty for absent.
var register = porcupine.Model{
	Step: func(state, input, output any) (bool, any) {
		was, in, out := state.(string), input.(step), output.(result)
		switch in.kind {
		case Get:
			return out.found == was, was
		case Put:
			return true, in.value
		case Delete:
			return (out.outcome == Refused) == (was == ""), ""
		case Swap:
			if out.outcome == Refused {
				return was != in.old, was
			}
			return was == in.old, in.value
		default:
			return false, was
		}
	},
}

// byKey splits operations by key. A write of unknown outcome that is missing from the history did nothing; one in the
// history may have taken effect at any time.
func byKey(base Base, ops []*Op, fate Fate) map[string][]porcupine.Operation {
	// porcupine compares values, clients compare revisions.
	valueAt := map[int64]string{}
	for _, e := range base {
		valueAt[e.Revision] = e.Value
	}
	for o, rev := range fate {
		if o.Kind != Delete {
			valueAt[rev] = o.Value
		}
	}
	keys := map[string][]porcupine.Operation{}
	for _, o := range ops {
		if o.Kind == List || o.At != 0 || o.Outcome == Unknown && fate[o] == 0 ||
			o.Outcome == Refused && o.Kind == Put {
			continue
		}
		end := o.End
		if o.Outcome == Unknown {
			end = math.MaxInt64
		}
		out := result{outcome: o.Outcome}
		if len(o.Found) > 0 {
			out.found = o.Found[0].Value
		}
		add := func(key string, kind Kind) {
			keys[key] = append(keys[key], porcupine.Operation{
				ClientId: o.Client, Call: int64(o.Start), Return: int64(end),
				Input: step{kind: kind, value: o.Value, old: valueAt[o.Expect]}, Output: out,
			})
		}
		for _, key := range o.Keys {
			add(key, o.Kind)
		}
		for _, key := range o.Deletes {
			add(key, Delete)
		}
	}
	return keys
}
