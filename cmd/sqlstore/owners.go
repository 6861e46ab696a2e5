package main

import (
	"github.com/sqlstore/sqlstore/backend"
)

// owners orders Kubernetes' objects so that owners are written before what they own: the garbage collector deletes an
// object whose owners do not exist. The zero value is ready to use.
type owners struct {
	objects []owned
	byUID   map[string]int // place in objects
}

// owned is an object that has a uid or owners.
type owned struct {
	plan int // its place in the plan
	by   []string
	rank int // 0 if it is not known yet
}

// add notes an object that is the i-th of the plan.
func (o *owners) add(i int, row *backend.Row) {
	metadata := metadataOf(row)
	uid, _ := metadata["uid"].(string)
	if uid == "" {
		return
	}
	x := owned{plan: i}
	references, _ := metadata["ownerReferences"].([]any)
	for _, reference := range references {
		fields, _ := reference.(map[string]any)
		if owner, _ := fields["uid"].(string); owner != "" {
			x.by = append(x.by, owner)
		}
	}
	if o.byUID == nil {
		o.byUID = map[string]int{}
	}
	o.byUID[uid] = len(o.objects)
	o.objects = append(o.objects, x)
}

// rank calls set with the place in the plan of each object that has owners in it, and how many owners are above it.
func (o *owners) rank(set func(i, rank int)) {
	for i := range o.objects {
		if rank := o.find(i); rank > 1 {
			set(o.objects[i].plan, rank-1)
		}
	}
}

// find returns one more than the rank of an object. Owners that own each other have the lowest.
func (o *owners) find(i int) int {
	x := &o.objects[i]
	if x.rank == 0 {
		x.rank = 1 // ends a circle
		for _, uid := range x.by {
			if owner, ok := o.byUID[uid]; ok {
				x.rank = max(x.rank, o.find(owner)+1)
			}
		}
	}
	return x.rank
}
