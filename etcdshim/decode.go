package etcdshim

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sqlstore/sqlstore/internal/store"
)

var (
	// protobuf's texts
	errMalformed = errors.New("proto: cannot parse invalid wire-format data")
	errTooDeep   = errors.New("proto: exceeded maximum recursion depth")
)

// fields walks the fields of one message. It follows protobuf's rules: it skips a well-formed field with an unknown
// number or an unexpected type. Of several fields with one number the last counts, or they are merged if they are
// messages.
type fields struct {
	b   []byte // the rest, beginning with the current field's value
	num protowire.Number
	typ protowire.Type
	err error
}

// next moves to the next field. It returns false at the end or on an error.
func (f *fields) next() bool {
	if len(f.b) == 0 || f.err != nil {
		return false
	}
	tag := uint64(f.b[0])
	if tag < 0x80 {
		f.b = f.b[1:]
	} else {
		v, n := protowire.ConsumeVarint(f.b)
		if n < 0 {
			return f.fail()
		}
		tag, f.b = v, f.b[n:]
	}
	if n := tag >> 3; n < uint64(protowire.MinValidNumber) || n > uint64(protowire.MaxValidNumber) {
		return f.fail()
	}
	f.num, f.typ = protowire.Number(tag>>3), protowire.Type(tag&7)
	return f.typ != protowire.EndGroupType || f.fail()
}

func (f *fields) fail() bool {
	f.err = errMalformed
	return false
}

// skip skips a field that has no meaning here.
func (f *fields) skip() {
	n := protowire.ConsumeFieldValue(f.num, f.typ, f.b)
	if n < 0 {
		f.fail()
		return
	}
	f.b = f.b[n:]
}

// varint returns the field's value; ok is false if its type differs, and then the field is skipped.
func (f *fields) varint() (v uint64, ok bool) {
	if f.typ != protowire.VarintType {
		f.skip()
		return 0, false
	}
	if len(f.b) > 0 && f.b[0] < 0x80 {
		v, f.b = uint64(f.b[0]), f.b[1:]
		return v, true
	}
	v, n := protowire.ConsumeVarint(f.b)
	if n < 0 {
		return 0, f.fail()
	}
	f.b = f.b[n:]
	return v, true
}

func (f *fields) bytes() (v []byte, ok bool) {
	if f.typ != protowire.BytesType {
		f.skip()
		return nil, false
	}
	v, n := protowire.ConsumeBytes(f.b)
	if n < 0 {
		return nil, f.fail()
	}
	f.b = f.b[n:]
	return v[:len(v):len(v)], true
}

func (f *fields) setInt(p *int64) {
	if v, ok := f.varint(); ok {
		*p = int64(v)
	}
}

func (f *fields) setBool(p *bool) {
	if v, ok := f.varint(); ok {
		*p = v != 0
	}
}

func (f *fields) setBytes(p *[]byte) {
	if v, ok := f.bytes(); ok {
		*p = v
	}
}

func setEnum[E ~int32](f *fields, p *E) {
	if v, ok := f.varint(); ok {
		*p = E(v)
	}
}

func decodeRange(b []byte, r *store.RangeRequest) error {
	f := fields{b: b}
	for f.next() {
		switch f.num {
		case 1:
			f.setBytes(&r.Key)
		case 2:
			f.setBytes(&r.End)
		case 3:
			f.setInt(&r.Limit)
		case 4:
			f.setInt(&r.Revision)
		case 5:
			setEnum(&f, &r.Order)
		case 6:
			setEnum(&f, &r.Target)
		case 7:
			f.setBool(&r.Serializable)
		case 8:
			f.setBool(&r.KeysOnly)
		case 9:
			f.setBool(&r.CountOnly)
		case 10:
			f.setInt(&r.MinModRev)
		case 11:
			f.setInt(&r.MaxModRev)
		case 12:
			f.setInt(&r.MinCreateRev)
		case 13:
			f.setInt(&r.MaxCreateRev)
		default:
			f.skip()
		}
	}
	return f.err
}

func decodePut(b []byte, r *store.PutRequest) error {
	f := fields{b: b}
	for f.next() {
		switch f.num {
		case 1:
			f.setBytes(&r.Key)
		case 2:
			f.setBytes(&r.Value)
		case 3:
			f.setInt(&r.Lease)
		case 4:
			f.setBool(&r.PrevKV)
		case 5:
			f.setBool(&r.IgnoreValue)
		case 6:
			f.setBool(&r.IgnoreLease)
		default:
			f.skip()
		}
	}
	return f.err
}

func decodeDelete(b []byte, r *store.DeleteRequest) error {
	f := fields{b: b}
	for f.next() {
		switch f.num {
		case 1:
			f.setBytes(&r.Key)
		case 2:
			f.setBytes(&r.End)
		case 3:
			f.setBool(&r.PrevKV)
		default:
			f.skip()
		}
	}
	return f.err
}

// The members of a Compare's target_union by field number, in the order of their targets.
const (
	unionVersion = 4 + iota
	unionCreate
	unionMod
	unionValue
	unionLease
)

func decodeCompare(b []byte, c *store.Compare) error {
	f := fields{b: b}
	var union protowire.Number
	for f.next() {
		switch f.num {
		case 1:
			setEnum(&f, &c.Result)
		case 2:
			setEnum(&f, &c.Target)
		case 3:
			f.setBytes(&c.Key)
		case unionVersion, unionCreate, unionMod, unionLease:
			if v, ok := f.varint(); ok {
				c.Number, c.Value, union = int64(v), nil, f.num
			}
		case unionValue:
			if v, ok := f.bytes(); ok {
				c.Number, c.Value, union = 0, v, f.num
			}
		case 64:
			f.setBytes(&c.End)
		default:
			f.skip()
		}
	}
	if union != protowire.Number(unionVersion+c.Target) {
		// The value does not match the target: etcd then compares with zero.
		c.Number, c.Value = 0, nil
	}
	return f.err
}

func (d *txnDecoder) txn(b []byte, t *store.Txn, depth int) error {
	if depth < 0 {
		return errTooDeep
	}
	f := fields{b: b}
	for f.next() {
		switch f.num {
		case 1:
			if v, ok := f.bytes(); ok {
				if depth < 1 {
					return errTooDeep
				}
				t.Compare = append(t.Compare, store.Compare{})
				if err := decodeCompare(v, &t.Compare[len(t.Compare)-1]); err != nil {
					return err
				}
			}
		case 2, 3:
			v, ok := f.bytes()
			if !ok {
				continue
			}
			ops := &t.Success
			if f.num == 3 {
				ops = &t.Failure
			}
			*ops = append(*ops, store.Op{})
			if err := d.op(v, &(*ops)[len(*ops)-1], depth-1); err != nil {
				return err
			}
		default:
			f.skip()
		}
	}
	return f.err
}

func (d *txnDecoder) op(b []byte, op *store.Op, depth int) error {
	if depth < 0 {
		return errTooDeep
	}
	f := fields{b: b}
	for f.next() {
		if f.num > 4 {
			f.skip()
			continue
		}
		v, ok := f.bytes()
		if !ok {
			continue
		}
		if depth < 1 {
			return errTooDeep
		}
		var err error
		switch f.num {
		case 1:
			if op.Range == nil {
				*op = store.Op{Range: d.newRange()}
			}
			err = decodeRange(v, op.Range)
		case 2:
			if op.Put == nil {
				*op = store.Op{Put: d.newPut()}
			}
			err = decodePut(v, op.Put)
		case 3:
			if op.Delete == nil {
				*op = store.Op{Delete: new(store.DeleteRequest)}
			}
			err = decodeDelete(v, op.Delete)
		case 4:
			if op.Txn == nil {
				*op = store.Op{Txn: new(store.Txn)}
			}
			err = d.txn(v, op.Txn, depth-1)
		}
		if err != nil {
			return err
		}
	}
	return f.err
}

// txnDecoder has space for a typical transaction (one compare, one write, perhaps a read), so that it takes one
// allocation.
type txnDecoder struct {
	decoded  store.Txn
	compares [1]store.Compare
	success  [1]store.Op
	failure  [1]store.Op
	rng      store.RangeRequest
	put      store.PutRequest
	rngUsed  bool
	putUsed  bool
}

func (d *txnDecoder) newRange() *store.RangeRequest {
	if d.rngUsed {
		return new(store.RangeRequest)
	}
	d.rngUsed = true
	return &d.rng
}

func (d *txnDecoder) newPut() *store.PutRequest {
	if d.putUsed {
		return new(store.PutRequest)
	}
	d.putUsed = true
	return &d.put
}

// own copies a put's bytes if the store would otherwise keep a much larger request alive.
func own(p *store.PutRequest, request int) {
	if n := len(p.Key) + len(p.Value); 2*n < request {
		b := make([]byte, 0, n)
		b = append(append(b, p.Key...), p.Value...)
		k := len(p.Key)
		p.Key, p.Value = b[:k:k], b[k:]
	}
	if p.Value == nil {
		p.Value = []byte{}
	}
}

func ownAll(t *store.Txn, request int) {
	for _, ops := range [2][]store.Op{t.Success, t.Failure} {
		for i := range ops {
			switch op := &ops[i]; {
			case op.Put != nil:
				own(op.Put, request)
			case op.Txn != nil:
				ownAll(op.Txn, request)
			}
		}
	}
}
