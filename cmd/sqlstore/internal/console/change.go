package console

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/changes"
)

// changing is the data of the page that asks before a key is changed.
type changing struct {
	Key     string
	Trail   []entry
	Action  string   // the address of the form, with the key: a field cannot hold all bytes that a key can have
	Restore *version // the version to put back, nil to delete the key
	Now     int64    // the revision of the newest version, 0 if the key does not exist
	Lines   []line   // what the change does
	Hidden  bool
	Cut     bool
	Large   bool // too large to compare
}

// asking returns the page for a key.
func (c *Console) asking(r *http.Request, action string) (*changing, *version, error) {
	key := r.URL.Query().Get("key")
	ch := &changing{Key: key, Action: link(action, "key", key)}
	if err := checkKey(ch.Key); err != nil {
		return nil, nil, err
	}
	ch.Trail = trail(ch.Key)
	now, _, err := c.find(r, ch.Key, point{})
	if now != nil {
		ch.Now = now.Revision
	}
	return ch, now, err
}

// compare fills in what the change does. A value has its revision nowhere: what differs is not that.
func (ch *changing) compare(now, then *version) {
	texts := [2]string{}
	for i, v := range []*version{now, then} {
		if v != nil {
			var hidden bool
			row := *v.Row
			row.ModRevision = ch.Now
			texts[i], hidden = text(changes.Decode(&row), false)
			ch.Hidden = ch.Hidden || hidden
		}
	}
	if ch.Large = len(texts[0])+len(texts[1]) > mostCompared; !ch.Large {
		ch.Lines, ch.Cut = compared(texts[0], texts[1])
	}
}

// askRestore asks before it puts back the version that a key had at a point.
func (c *Console) askRestore(r *http.Request) (view, error) {
	ch, now, err := c.asking(r, "/restore")
	if err != nil {
		return view{}, err
	}
	at, err := pointOf(r)
	if err != nil {
		return view{}, err
	}
	if ch.Restore, _, err = c.find(r, ch.Key, at); err != nil {
		return view{}, err
	}
	if ch.Restore == nil {
		return view{}, &failure{Code: http.StatusNotFound, Message: "The key did not exist then."}
	}
	ch.compare(now, ch.Restore)
	return view{page: "change", title: "Put back " + ch.Key, data: ch}, nil
}

// askDelete asks before it deletes a key.
func (c *Console) askDelete(r *http.Request) (view, error) {
	ch, now, err := c.asking(r, "/delete")
	if err != nil {
		return view{}, err
	}
	if now == nil {
		return view{}, &failure{Code: http.StatusNotFound, Message: "There is no such key."}
	}
	ch.compare(now, nil)
	return view{page: "change", title: "Delete " + ch.Key, data: ch}, nil
}

// form returns what the page's form has sent: the key, and the revision that its user saw.
func form(r *http.Request) (key string, now int64, err error) {
	key = r.URL.Query().Get("key")
	if err := checkKey(key); err != nil {
		return "", 0, err
	}
	if now, err = strconv.ParseInt(r.PostForm.Get("now"), 10, 64); err != nil || now < 0 {
		return "", 0, &failure{Code: http.StatusBadRequest, Message: "The form names no revision."}
	}
	return key, now, nil
}

// restore puts a version back, as a new version.
func (c *Console) restore(r *http.Request) (view, error) {
	key, now, err := form(r)
	if err != nil {
		return view{}, err
	}
	at, err := parsePoint(r.PostForm.Get("at"))
	if err != nil {
		return view{}, err
	}
	then, _, err := c.find(r, key, at)
	if err != nil {
		return view{}, err
	}
	if at.Text == "" || then == nil {
		return view{}, &failure{Code: http.StatusNotFound, Message: "The key did not exist then."}
	}
	value := then.Row.Value
	if value == nil {
		value = []byte{}
	}
	if err := c.write(r, http.MethodPut, key, now, value); err != nil {
		return view{}, err
	}
	c.changed(r, "a version was put back", key, "of-revision", then.Revision)
	return view{to: link("/object", "key", key)}, nil
}

// delete deletes a key.
func (c *Console) delete(r *http.Request) (view, error) {
	key, now, err := form(r)
	if err != nil {
		return view{}, err
	}
	if now == 0 {
		return view{}, &failure{Code: http.StatusNotFound, Message: "There is no such key."}
	}
	if err := c.write(r, http.MethodDelete, key, now, nil); err != nil {
		return view{}, err
	}
	c.changed(r, "a key was deleted", key)
	return view{to: link("/object", "key", key)}, nil
}

// write changes a key whose newest version is still the one at a revision; 0 is none.
func (c *Console) write(r *http.Request, method, key string, now int64, value []byte) error {
	only := url.Values{}
	if now > 0 {
		only.Set("resourceVersion", strconv.FormatInt(now, 10))
	}
	var answered struct{}
	err := c.api.do(r, method, objectsPath+url.PathEscape(key), only, value, &answered)
	if is(err, http.StatusConflict) || now > 0 && is(err, http.StatusNotFound) {
		return &failure{Code: http.StatusConflict, Key: key, Message: "Somebody has changed the key meanwhile, so " +
			"nothing was done. Look at it again."}
	}
	return err
}

// changed logs who has changed what.
func (c *Console) changed(r *http.Request, what, key string, more ...any) {
	c.log.Warn("console: "+what, append([]any{"key", key, "user", userOf(r), "address", r.RemoteAddr}, more...)...)
}
