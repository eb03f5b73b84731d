package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/sandbox-go/sandbox"
)

// An Error is an answer other than the one that was asked for, in whichever shape
// the API documents. The functions of Options return one to choose what the client
// is told:
//
//	&httpapi.Error{Status: 402, Message: "no credit is left"}
//	&httpapi.Error{Status: 403, Code: "monthly_token_budget_exceeded", Message: "…"}
//	&httpapi.Error{Status: 429, Message: "slow down", RetryAfter: time.Second}
type Error struct {
	// Status is the HTTP status code: 4xx or 5xx. 0 is 500.
	Status int

	// Code says to programs what is wrong, in lower case with underscores. It is
	// the type of an error of sandboxes and, in upper case, the code of one of
	// agents; rooms do not have it. Empty is the one that goes with Status.
	Code string

	// Message says to people what is wrong, and what to change.
	Message string

	// RetryAfter is when trying again makes sense, rounded up to whole seconds
	// in the Retry-After header; 0 sends none.
	RetryAfter time.Duration

	field string // what of the request it is about: a property's name, or empty
	allow string // the Allow header of a 405
	err   error  // the cause, for the log
}

// Error returns the message.
func (e *Error) Error() string {
	if e.field != "" {
		return e.field + ": " + e.Message
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.err }

// code returns Code, or the one that goes with Status.
func (e *Error) code() string {
	if e.Code != "" {
		return e.Code
	}
	switch e.Status {
	case http.StatusUnauthorized:
		return "unauthorized"
	case http.StatusPaymentRequired:
		return "insufficient_credit"
	case http.StatusForbidden:
		return "forbidden"
	case http.StatusNotFound:
		return "not_found"
	case http.StatusConflict:
		return "conflict"
	case http.StatusRequestEntityTooLarge:
		return "too_large"
	case http.StatusTooManyRequests:
		return "rate_limited"
	case http.StatusServiceUnavailable:
		return "unavailable"
	case http.StatusNotImplemented:
		return "not_implemented"
	case http.StatusBadGateway:
		return "bad_gateway"
	case http.StatusInsufficientStorage:
		return "no_space"
	}
	if e.Status < http.StatusInternalServerError {
		return "invalid_request"
	}
	return "internal"
}

// asRecord is the status of a failure that is no error to the API: its record is
// the answer.
const asRecord = http.StatusOK

// statuses are the HTTP status codes of one failure, by API.
type statuses struct{ rooms, sandboxes, agents int }

// statusesOf is the table from the core's errors to each API's status codes. What
// the input caused is a 400. The last row is for what the backend could not do.
func statusesOf(err error) statuses {
	for _, row := range []struct {
		is error
		statuses
	}{
		{sandbox.ReasonBadDirectory, statuses{400, 400, 400}},
		{sandbox.ReasonBadUser, statuses{400, 400, 400}},
		{sandbox.ReasonTooLong, statuses{400, 400, 400}},
		{sandbox.ReasonNotFound, statuses{500, asRecord, 500}},
		{sandbox.ReasonIsDirectory, statuses{500, asRecord, 500}},
		{sandbox.ReasonNotExecutable, statuses{500, asRecord, 500}},
		{sandbox.ReasonInterpreterNotFound, statuses{500, asRecord, 500}},
		{sandbox.ReasonNoResources, statuses{500, asRecord, 500}},
		{sandbox.ReasonCannotStart, statuses{500, asRecord, 500}},
		{sandbox.ErrNotFound, statuses{404, 404, 404}},
		{sandbox.ErrLimit, statuses{503, 429, 429}},
		{sandbox.ErrClosed, statuses{500, 409, 503}},
		{sandbox.ErrGone, statuses{500, 409, 503}},
		{sandbox.ErrLost, statuses{500, 409, 503}},
		{errors.ErrUnsupported, statuses{500, 500, 500}},
		{context.Canceled, statuses{503, 503, 503}},
		{context.DeadlineExceeded, statuses{503, 503, 503}},
	} {
		if errors.Is(err, row.is) {
			return row.statuses
		}
	}
	return statuses{500, 503, 503}
}

// explain returns what err is answered with.
func (a *api) explain(err error) *Error {
	var (
		chosen  *Error
		input   *sandbox.InvalidError
		start   *sandbox.StartError
		limit   *sandbox.LimitError
		problem = &Error{Status: a.status(statusesOf(err)), Message: err.Error(), err: err}
	)
	switch {
	case errors.As(err, &chosen):
		answer := *chosen
		if answer.Status == 0 {
			answer.Status = http.StatusInternalServerError
		}
		return &answer
	case errors.As(err, &input):
		problem.Status, problem.Message, problem.field = http.StatusBadRequest, input.Problem, a.property(input.Field)
	case errors.As(err, &start): // what it wraps besides is the service's
		if problem.Message = start.Error(); problem.Status == http.StatusBadRequest {
			problem.field = a.cause(start.Reason)
		}
	case errors.As(err, &limit):
		problem.RetryAfter = max(limit.RetryAfter, time.Second)
	}
	return problem
}

// fieldKeyName is the name in a sandbox's key, which the path has.
const fieldKeyName sandbox.Field = "Key.Name"

// property returns the request's name of a field of the core.
func (a *api) property(field sandbox.Field) string {
	if name, ok := a.fields[field]; ok {
		return name
	}
	return string(field)
}

// cause returns the request's name of what a start failed for.
func (a *api) cause(r sandbox.Reason) string {
	switch r {
	case sandbox.ReasonBadDirectory:
		return a.property(sandbox.FieldDir)
	case sandbox.ReasonBadUser:
		return a.property(sandbox.FieldUser)
	}
	return a.property(sandbox.FieldEnv)
}

// failure returns what the client is told about an execution that failed, or nil
// when its record is the answer.
func (a *api) failure(rec *sandbox.Execution) error {
	if rec.Status != sandbox.Failed || a.status(statusesOf(rec.Err)) == asRecord {
		return nil
	}
	return rec.Err
}
