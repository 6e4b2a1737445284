package s3store

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// status is the HTTP status of a refusal, 0 if the store gave none.
func status(err error) int {
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) {
		return response.HTTPStatusCode()
	}
	return 0
}

// code is the store's own name for a refusal.
func code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// isMissing reports that there is no such object. A missing bucket is something
// else, though the answer to a HEAD, having no body, cannot tell them apart.
func isMissing(err error) bool {
	return code(err) == "NoSuchKey" || code(err) == "NotFound" && status(err) == http.StatusNotFound
}

// isUnanswered reports that no answer came. The request may have had its effect.
func isUnanswered(err error) bool {
	var unsent *smithyhttp.RequestSendError
	var garbled *smithy.DeserializationError
	return errors.As(err, &unsent) || errors.As(err, &garbled)
}

// isPassing reports that the same request may succeed later. It may have had
// its effect already.
func isPassing(err error) bool {
	switch n := status(err); n {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented:
		return false
	default:
		return n >= http.StatusInternalServerError || n < http.StatusBadRequest && isUnanswered(err)
	}
}

// told is an error in the few of the SDK's words that help. The whole error is
// there to unwrap.
type told struct {
	words string
	err   error
}

func (e *told) Error() string { return e.words }

func (e *told) Unwrap() error { return e.err }

// tell shortens what the SDK says; other errors stay as they are.
func tell(err error) error {
	var api smithy.APIError
	var send *url.Error
	switch {
	case errors.As(err, &api):
		return &told{words: api.ErrorCode() + ": " + strings.TrimSuffix(api.ErrorMessage(), "."), err: err}
	case errors.As(err, &send):
		return &told{words: send.Err.Error(), err: err}
	}
	return err
}
