package s3store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"conclave/engine/files/artifact"
)

// Create implements artifact.Store with If-None-Match: *. If a try got no response, it may have stored the
// object, and a later try is refused. Create then reads the object and succeeds if it has the same bytes.
// Bodies that two callers might both write must therefore contain a unique token.
func (s *Store) Create(ctx context.Context, key string, body []byte) error {
	full, err := s.objectKey(ctx, key)
	if err == nil {
		err = s.createWithRetries(ctx, key, full, body)
	}
	if err != nil {
		return s.operationError("create", key, err)
	}
	return nil
}

func (s *Store) createWithRetries(ctx context.Context, key string, full *string, body []byte) error {
	unsure := false // a failed try may have stored the object
	var err error
	for try := range s.client.Options().Retryer.MaxAttempts() {
		if try > 0 {
			if err := s.awaitRetry(ctx, try); err != nil {
				return err
			}
		}
		_, err = s.client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &s.bucket, Key: full, Body: bytes.NewReader(body), IfNoneMatch: aws.String("*"), ContentType: contentType(key),
		}, withoutRetries)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil && !errors.Is(err, ctx.Err()):
			return fmt.Errorf("%w after: %w", ctx.Err(), err)
		case ctx.Err() != nil:
			return err
		case httpStatus(err) == http.StatusPreconditionFailed:
			return s.readBack(ctx, key, body, unsure, artifact.ErrExists)
		case isConflict(err):
			// Another write was in progress; the next try shows its outcome.
		case isTransient(err):
			unsure = true
		default:
			return err
		}
	}
	return s.readBack(ctx, key, body, unsure, err)
}

// isConflict reports whether the store refused to decide because of a concurrent write.
func isConflict(err error) bool {
	return httpStatus(err) == http.StatusConflict &&
		(errorCode(err) == "ConditionalRequestConflict" || errorCode(err) == "OperationAborted")
}

// readBack reads the stored object to decide whether a refused or failed Create has succeeded.
func (s *Store) readBack(ctx context.Context, key string, body []byte, unsure bool, err error) error {
	refused := errors.Is(err, artifact.ErrExists)
	if refused && !unsure {
		return err
	}
	var options []func(*s3.Options)
	if !refused {
		options = append(options, withoutRetries) // no tries are left
	}
	stored, getErr := s.readObject(ctx, key, options...)
	switch {
	case isMissing(getErr):
		return err
	case getErr != nil && refused:
		return fmt.Errorf("whether the key was created by this call is not known: %w", getErr)
	case getErr != nil:
		return err
	case unsure && bytes.Equal(stored, body):
		return nil
	}
	return artifact.ErrExists
}
