package s3store

import (
	"context"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Observer is called after each attempt of a request with its operation, such as PutObject, the
// HTTP status, or 0 if no response arrived, and the duration.
type Observer func(operation string, status int, took time.Duration)

// observe inserts the observer into the SDK's middleware after the retries, so that it sees every
// attempt.
func (o Options) observe(stack *middleware.Stack) error {
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("Observe", func(
		ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler,
	) (middleware.DeserializeOutput, middleware.Metadata, error) {
		began := time.Now()
		out, metadata, err := next.HandleDeserialize(ctx, in)
		status := 0
		if response, ok := out.RawResponse.(*smithyhttp.Response); ok && response != nil {
			status = response.StatusCode
		}
		o.Observe(awsmiddleware.GetOperationName(ctx), status, time.Since(began))
		return out, metadata, err
	}), middleware.After)
}
