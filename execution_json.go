package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A plainExecution is an Execution without its methods.
type plainExecution Execution

// An executionJSON is an Execution whose errors have a form in JSON.
type executionJSON struct {
	*plainExecution
	Err       *errorJSON `json:"error,omitempty"`
	StdinErr  *errorJSON `json:"stdin_error,omitempty"`
	OutputErr *errorJSON `json:"output_error,omitempty"`
}

// MarshalJSON returns the record with everything but what Command reads and writes, output in
// base64.
func (e Execution) MarshalJSON() ([]byte, error) {
	return json.Marshal(executionJSON{(*plainExecution)(&e), toJSON(e.Err), toJSON(e.StdinErr), toJSON(e.OutputErr)})
}

// UnmarshalJSON reads what MarshalJSON returns. Errors come back as far as programs
// tell them apart: as *StartError, *SurvivorsError, *GapError, ErrLost and ErrGone, with their text.
func (e *Execution) UnmarshalJSON(data []byte) error {
	var plain plainExecution
	doc := executionJSON{plainExecution: &plain}
	if err := json.Unmarshal(data, &doc); err != nil {
		return err
	}
	*e = Execution(plain)
	e.Err, e.StdinErr, e.OutputErr = doc.Err.error(), doc.StdinErr.error(), doc.OutputErr.error()
	return nil
}

// An errorJSON is an error in JSON: its text, and what it wraps.
type errorJSON struct {
	Text      string          `json:"text"`
	Lost      bool            `json:"lost,omitempty"`
	Gone      bool            `json:"gone,omitempty"`
	Start     *StartError     `json:"start,omitempty"`
	Survivors *SurvivorsError `json:"survivors,omitempty"`
	Gap       *GapError       `json:"gap,omitempty"`
}

func toJSON(err error) *errorJSON {
	if err == nil {
		return nil
	}
	doc := &errorJSON{Text: err.Error(), Lost: errors.Is(err, ErrLost), Gone: errors.Is(err, ErrGone)}
	errors.As(err, &doc.Start)
	errors.As(err, &doc.Survivors)
	errors.As(err, &doc.Gap)
	return doc
}

// error returns the error again: one of those that it wraps where that is all.
func (doc *errorJSON) error() error {
	if doc == nil {
		return nil
	}
	var causes []error
	if doc.Lost {
		causes = append(causes, ErrLost)
	}
	if doc.Gone {
		causes = append(causes, ErrGone)
	}
	if doc.Start != nil {
		causes = append(causes, doc.Start)
	}
	if doc.Survivors != nil {
		causes = append(causes, doc.Survivors)
	}
	if doc.Gap != nil {
		causes = append(causes, doc.Gap)
	}
	if len(causes) == 1 && causes[0].Error() == doc.Text {
		return causes[0]
	}
	return &storedError{doc.Text, causes}
}

// A storedError is an error of a record that was unmarshalled.
type storedError struct {
	text   string
	causes []error
}

func (e *storedError) Error() string   { return e.text }
func (e *storedError) Unwrap() []error { return e.causes }

// marshalWord returns the word of a small number.
func marshalWord(n int, words []string) ([]byte, error) {
	if n < 0 || n >= len(words) {
		return nil, fmt.Errorf("%d is none of %s", n, strings.Join(words, ", "))
	}
	return []byte(words[n]), nil
}

// unmarshalWord reads what marshalWord returns.
func unmarshalWord(n *int, text []byte, words []string) error {
	i := slices.Index(words, string(text))
	if i < 0 {
		return fmt.Errorf("%q is none of %s", text, strings.Join(words, ", "))
	}
	*n = i
	return nil
}
