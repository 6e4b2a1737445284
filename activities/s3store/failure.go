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
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// httpStatus returns the HTTP status of an error, or 0 if there was no response.
func httpStatus(err error) int {
	if response, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return response.HTTPStatusCode()
	}
	return 0
}

func errorCode(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

// isMissing reports whether the object does not exist. After a HEAD request, the bucket may be
// missing instead.
func isMissing(err error) bool {
	return errorCode(err) == "NoSuchKey" || errorCode(err) == "NotFound" && httpStatus(err) == http.StatusNotFound
}

// isUnanswered reports whether there was no response. The request may have taken effect.
func isUnanswered(err error) bool {
	_, unsent := errors.AsType[*smithyhttp.RequestSendError](err)
	_, garbled := errors.AsType[*smithy.DeserializationError](err)
	return unsent || garbled
}

// isTransient reports whether a retry of the request may succeed. The request may already have taken effect.
func isTransient(err error) bool {
	switch n := httpStatus(err); n {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented:
		return false
	default:
		return n >= http.StatusInternalServerError || n < http.StatusBadRequest && isUnanswered(err)
	}
}

// conciseError is an SDK error with a shorter text. It unwraps to the SDK error.
type conciseError struct {
	text string
	err  error
}

func (e *conciseError) Error() string { return e.text }

func (e *conciseError) Unwrap() error { return e.err }

func shortenError(err error) error {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return &conciseError{text: api.ErrorCode() + ": " + strings.TrimSuffix(api.ErrorMessage(), "."), err: err}
	}
	if send, ok := errors.AsType[*url.Error](err); ok {
		return &conciseError{text: send.Err.Error(), err: err}
	}
	return err
}

const (
	// maxTries is the number of tries of a request, unless AWS_MAX_ATTEMPTS is set. With the waits
	// between them they last 18 to 36 seconds.
	maxTries = 12
	// probeTries is lower than maxTries, so that a wrong address is soon reported.
	probeTries = 4
	// firstWait is the longest wait before the second try. It doubles up to longestWait.
	firstWait   = 200 * time.Millisecond
	longestWait = 5 * time.Second
)

// newRetryer returns a retryer for transient errors. Unlike the SDK's retryers, it has no quota
// that all requests share.
func newRetryer(first time.Duration) aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = maxTries
		o.RateLimiter = ratelimit.None
		o.Backoff = retry.BackoffDelayerFunc(func(attempt int, _ error) (time.Duration, error) {
			return retryDelay(first, attempt), nil
		})
		o.Retryables = append(o.Retryables, retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
			if isTransient(err) {
				return aws.TrueTernary
			}
			return aws.UnknownTernary
		}))
	})
}

// retryDelay returns a random wait after a failed try, counted from 1: between half of a limit and the
// limit, which doubles with each try.
func retryDelay(first time.Duration, try int) time.Duration {
	longest := first
	for i := 1; i < try && longest < longestWait; i++ {
		longest *= 2
	}
	longest = min(longest, longestWait)
	return longest/2 + rand.N(longest/2+1)
}

// withFewTries returns the same store with only probeTries tries, so that an outage is soon reported.
func (s *Store) withFewTries() *Store {
	quick := *s
	quick.client = s3.New(s.client.Options(), func(o *s3.Options) { o.RetryMaxAttempts = probeTries })
	return &quick
}

func (s *Store) awaitRetry(ctx context.Context, try int) error {
	wait, err := s.client.Options().Retryer.RetryDelay(try, nil)
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

func withoutRetries(o *s3.Options) { o.Retryer = aws.NopRetryer{} }

// Lead returns by how much this machine's clock is ahead of the store's, to about a second. Stores refuse
// requests whose time is more than 15 minutes off; Lead then reads the time from the refusal.
func (s *Store) Lead(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	s = s.withFewTries()
	out, err := s.client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &s.bucket})
	now := time.Now()
	if out != nil {
		if theirs, ok := middleware.GetServerTime(out.ResultMetadata); ok {
			return now.Sub(theirs), nil
		}
	}
	if refused, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		if theirs, err := http.ParseTime(refused.Response.Header.Get("Date")); err == nil {
			return now.Sub(theirs), nil
		}
	}
	if err == nil {
		err = errors.New("the store's response has no Date")
	}
	return 0, s.unusableError("read the clock of", err)
}
