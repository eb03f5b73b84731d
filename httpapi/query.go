package httpapi

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// A query reads the parameters in a request's URL. The first problem sticks in err,
// so that it is asked for once, after all have been read. Parameters that nobody
// reads are ignored; one that is read may come only once.
type query struct {
	values url.Values
	err    error
}

func (c *call) query() *query {
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	q := &query{values: values}
	if err != nil {
		q.err = invalid("", "the query is malformed: "+err.Error())
	}
	return q
}

// text returns a parameter, or nothing when it is not there.
func (q *query) text(name string) string {
	values := q.values[name]
	switch len(values) {
	case 0:
		return ""
	case 1:
		return values[0]
	}
	q.refuse(name, "must not be given twice")
	return ""
}

// required returns a parameter that must be there and not be empty.
func (q *query) required(name string) string {
	value := q.text(name)
	if value == "" {
		q.refuse(name, "is missing: add ?"+name+"=… to the URL")
	}
	return value
}

// flag returns a parameter that is true or false; absent is false.
func (q *query) flag(name string) bool {
	switch q.text(name) {
	case "", "false", "0":
		return false
	case "true", "1":
		return true
	}
	q.refuse(name, "must be true or false")
	return false
}

// integer returns a parameter from low to high; absent is def.
func (q *query) integer(name string, def, low, high int64) int64 {
	value := q.text(name)
	if value == "" {
		return def
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < low || n > high {
		q.refuse(name, fmt.Sprintf("must be an integer from %d to %d", low, high))
		return def
	}
	return n
}

// choice returns a parameter that is one of the given words; absent is the first.
func (q *query) choice(name string, words ...string) string {
	value := q.text(name)
	if value == "" {
		return words[0]
	}
	if !slices.Contains(words, value) {
		q.refuse(name, oneOf(words))
	}
	return value
}

func (q *query) refuse(name, problem string) {
	if q.err == nil {
		q.err = invalid(name, problem)
	}
}

// maxPage is how many items a client may ask for at once.
const maxPage = 1000

// A page is the part of a list that a client asks for: at most limit items, those
// after the item of that id. Lists are in the order in which their items were made,
// so nothing that is added meanwhile shifts a page.
type page struct {
	limit int    // 0 is all
	after string // empty is from the beginning
}

// page reads the parameters limit and after.
func (c *call) page() (page, error) {
	q := c.query()
	p := page{limit: int(q.integer("limit", 0, 1, maxPage)), after: q.text("after")}
	return p, q.err
}

// cut returns the part of all that p asks for, and whether there is more behind it.
func cut[T interface{ ID() string }](p page, all []T) (part []T, more bool, err error) {
	if p.after != "" {
		i := 0
		for i < len(all) && all[i].ID() != p.after {
			i++
		}
		if i == len(all) {
			return nil, false, invalid("after", "is not in the list any more: begin again without it")
		}
		all = all[i+1:]
	}
	if p.limit > 0 && len(all) > p.limit {
		return all[:p.limit], true, nil
	}
	return all, false, nil
}

// seconds returns a parameter that is a time span in seconds; absent is none.
func (q *query) seconds(name string) time.Duration {
	value := q.text(name)
	if value == "" {
		return 0
	}
	s, err := strconv.ParseFloat(value, 64)
	if err != nil || !(s >= 0 && s <= maxAgentTimeout) {
		q.refuse(name, fmt.Sprintf("must be at least 0 and at most %d seconds", maxAgentTimeout))
		return 0
	}
	return seconds(s)
}
