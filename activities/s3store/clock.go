package s3store

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

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
