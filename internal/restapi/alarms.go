package restapi

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/sqlstore/sqlstore/internal/store"
)

// alarmNames are etcd's names of alarms.
var alarmNames = map[store.AlarmKind]string{
	store.AlarmNone: "NONE", store.AlarmNoSpace: "NOSPACE", store.AlarmCorrupt: "CORRUPT",
}

// alarms answers with the raised alarms. The store bounds how many there are.
func (c *call) alarms() error {
	if err := c.refuseVersions(); err != nil {
		return err
	}
	ctx, cancel := c.bounded(c.r.Context())
	defer cancel()
	all, err := c.s.engine.ReadAlarms(ctx)
	if err != nil {
		return because(ctx, err)
	}
	c.revision = c.s.engine.Revision()
	slices.SortFunc(all, func(a, b store.Alarm) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Member, b.Member))
	})
	return c.answerList("AlarmList", len(all), func(b []byte, i int) []byte {
		return appendAlarm(b, all[i])
	}, 0, nil)
}

// appendAlarm appends an alarm. Clients can raise any kind for any member.
func appendAlarm(b []byte, a store.Alarm) []byte {
	b = strconv.AppendUint(append(b, `{"member":"`...), a.Member, 16)
	b = append(b, `","type":"`...)
	if name, ok := alarmNames[a.Kind]; ok {
		b = append(b, name...)
	} else {
		b = strconv.AppendInt(b, int64(a.Kind), 10)
	}
	return append(b, `"}`...)
}
