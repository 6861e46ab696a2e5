package sidebyside

import (
	"fmt"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// differ returns "" if two answers to the same request are equivalent, otherwise both answers.
func differ(req proto.Message, etcd, target answer) string {
	if sameAnswer(req, etcd, target) {
		return ""
	}
	return fmt.Sprintf("etcd:   %s\ntarget: %s", etcd, target)
}

func sameAnswer(req proto.Message, x, y answer) bool {
	if x.err != nil || y.err != nil {
		return x.err != nil && y.err != nil &&
			status.Code(x.err) == status.Code(y.err) &&
			status.Convert(x.err).Message() == status.Convert(y.err).Message()
	}
	a, b := normal(x.msg), normal(y.msg)
	if proto.Equal(a, b) {
		return true
	}
	loosen(req, a)
	loosen(req, b)
	return proto.Equal(a, b)
}
