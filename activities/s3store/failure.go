package s3store

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"
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

const (
	// maxAttempts is how often a request is sent, unless AWS_MAX_ATTEMPTS says
	// otherwise. With the waits between them a store may refuse everything for 18
	// to 36 seconds: what is written has often been paid for, and whoever cannot
	// wait has a context.
	maxAttempts = 12
	// probeAttempts is for Probe and EnsureBucket: a wrong address must be told at once.
	probeAttempts = 4
	// firstWait is the longest wait before the second attempt. It doubles up to longestWait.
	firstWait   = 200 * time.Millisecond
	longestWait = 5 * time.Second
)

// newRetryer repeats what may pass. Unlike the SDK's own retryers it has no
// quota for all requests together: in an outage every request waits.
func newRetryer(first time.Duration) aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = maxAttempts
		o.RateLimiter = ratelimit.None
		o.Backoff = retry.BackoffDelayerFunc(func(attempt int, _ error) (time.Duration, error) {
			return delay(first, attempt), nil
		})
		o.Retryables = append(o.Retryables, retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
			if isPassing(err) {
				return aws.TrueTernary
			}
			return aws.UnknownTernary
		}))
	})
}

// delay is the wait after a failed attempt, counted from 1: a random time in
// the upper half of one that doubles.
func delay(first time.Duration, attempt int) time.Duration {
	longest := first
	for i := 1; i < attempt && longest < longestWait; i++ {
		longest *= 2
	}
	longest = min(longest, longestWait)
	return longest/2 + rand.N(longest/2+1)
}

// impatient is the same store for a caller who is to hear soon that it is down.
func (s *Store) impatient() *Store {
	quick := *s
	quick.client = s3.New(s.client.Options(), func(o *s3.Options) { o.RetryMaxAttempts = probeAttempts })
	return &quick
}

// attempts is how often Create, which repeats by itself, sends its request.
func (s *Store) attempts() int { return s.client.Options().Retryer.MaxAttempts() }

// pause waits after a failed attempt, counted from 1.
func (s *Store) pause(ctx context.Context, attempt int) error {
	wait, err := s.client.Options().Retryer.RetryDelay(attempt, nil)
	if err != nil {
		return err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// once keeps the SDK from repeating a request.
func once(o *s3.Options) { o.Retryer = aws.NopRetryer{} }
