package recent

import "testing"

// A clock that is set back ends the hour before: charts need times that rise.
func TestClockSetBack(t *testing.T) {
	r := newRecorder()
	for _, at := range []float64{3600, 3605, 0, 5} {
		r.record(after(at), server{}.text(), nil)
	}
	hour := r.Hour()
	if len(hour) != 2 || !hour[0].Time().Equal(after(0)) || !hour[1].Time().Equal(after(5)) {
		t.Errorf("%d samples, from %v", len(hour), hour[0].Time())
	}
}
