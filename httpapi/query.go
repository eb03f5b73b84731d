package httpapi

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
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
	for _, word := range words {
		if value == word {
			return word
		}
	}
	q.refuse(name, "must be one of "+strings.Join(words, ", "))
	return words[0]
}

func (q *query) refuse(name, problem string) {
	if q.err == nil {
		q.err = invalid(name, problem)
	}
}
