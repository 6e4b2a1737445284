package s3store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"conclave/engine/files/artifact"
)

// maxPut is S3's limit for a single upload, in bytes.
const maxPut = 5 << 30

// maxReads bounds the number of reads of an object whose transfer is interrupted. The SDK does not
// retry these.
const maxReads = 3

// Get implements artifact.Store.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	data, err := s.readObject(ctx, key)
	if err != nil {
		return nil, s.operationError("get", key, err)
	}
	return data, nil
}

// Open implements artifact.Store.
func (s *Store) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	body, found, err := s.openPacked(ctx, key)
	if !found && err == nil {
		body, err = s.openObject(ctx, key)
	}
	if prefix, blob := packsOf(key); blob && isMissing(err) {
		missing := err
		if body, found, err = s.findPacked(ctx, prefix, key); !found && err == nil {
			err = missing
		}
	}
	if err != nil {
		return nil, s.operationError("open", key, err)
	}
	return body, nil
}

func (s *Store) readObject(ctx context.Context, key string, options ...func(*s3.Options)) ([]byte, error) {
	for try := 1; ; try++ {
		body, err := s.openObject(ctx, key, options...)
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(body)
		_ = body.Close()
		if err == nil || try == maxReads {
			return data, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

func (s *Store) openObject(ctx context.Context, key string, options ...func(*s3.Options)) (io.ReadCloser, error) {
	full, err := s.objectKey(ctx, key)
	if err != nil {
		return nil, err
	}
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: full}, options...)
	if err != nil {
		return nil, err
	}
	return out.Body, nil
}

// Put implements artifact.Store. The body is sent in a single request of at most 5 GiB.
func (s *Store) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	full, err := s.objectKey(ctx, key)
	if err == nil {
		err = checkSize(body)
	}
	if err == nil {
		_, err = s.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &s.bucket, Key: full, Body: body, ContentType: contentType(key)})
	}
	if err != nil {
		return s.operationError("put", key, err)
	}
	return nil
}

func checkSize(body io.Seeker) error {
	at, err := body.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	end, err := body.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if end-at > maxPut {
		return fmt.Errorf("the object has %d bytes: at most %d can be stored at once", end-at, int64(maxPut))
	}
	_, err = body.Seek(at, io.SeekStart)
	return err
}

// Copy implements artifact.Store with a server-side copy.
func (s *Store) Copy(ctx context.Context, src, dst string) error {
	from, err := s.objectKey(ctx, src)
	if err != nil {
		return s.operationError("copy from", src, err)
	}
	to, err := s.objectKey(ctx, dst)
	if err != nil {
		return s.operationError("copy to", dst, err)
	}
	source := url.URL{Path: s.bucket + "/" + *from}
	in := &s3.CopyObjectInput{Bucket: &s.bucket, Key: to, CopySource: aws.String(source.EscapedPath()), ContentType: contentType(dst)}
	if in.ContentType != nil {
		in.MetadataDirective = types.MetadataDirectiveReplace
	}
	_, err = s.client.CopyObject(ctx, in)
	if _, blob := packsOf(src); blob && isMissing(err) {
		return s.copyPacked(ctx, src, dst)
	}
	if err != nil {
		return s.operationError("copy to "+s.URL(dst)+" from", src, err)
	}
	return nil
}

func (s *Store) copyPacked(ctx context.Context, src, dst string) error {
	body, err := s.Open(ctx, src)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(body)
	if err = errors.Join(err, body.Close()); err != nil {
		return s.operationError("copy to "+s.URL(dst)+" from", src, err)
	}
	return s.Put(ctx, dst, bytes.NewReader(data))
}

// Exists implements artifact.Store.
func (s *Store) Exists(ctx context.Context, key string) (bool, error) {
	full, err := s.objectKey(ctx, key)
	if err == nil {
		_, err = s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.bucket, Key: full})
	}
	switch {
	case isMissing(err):
		return false, nil
	case err != nil:
		return false, s.operationError("look up", key, err)
	}
	return true, nil
}

// Delete implements artifact.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	full, err := s.objectKey(ctx, key)
	if err == nil {
		_, err = s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: full})
	}
	if err != nil && !isMissing(err) {
		return s.operationError("delete", key, err)
	}
	return nil
}

// maxBatch is the protocol's limit on the number of keys in one deletion.
const maxBatch = 1000

// DeleteAll implements artifact.Store. If the server does not support batches, it sends one request
// for each object.
func (s *Store) DeleteAll(ctx context.Context, keys []string) error {
	var failed []error
	for batch := range slices.Chunk(keys, maxBatch) {
		if ctx.Err() != nil {
			return errors.Join(append(failed, artifact.StoreFault(fmt.Sprintf("delete %d objects", len(keys)), ctx.Err()))...)
		}
		err := s.deleteBatch(ctx, batch)
		if httpStatus(err) == http.StatusNotImplemented || httpStatus(err) == http.StatusMethodNotAllowed {
			err = s.deleteEach(ctx, batch)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

func (s *Store) deleteBatch(ctx context.Context, keys []string) error {
	var objects []types.ObjectIdentifier
	for _, key := range keys {
		full, err := s.objectKey(ctx, key)
		if err != nil {
			return s.operationError("delete", key, err)
		}
		objects = append(objects, types.ObjectIdentifier{Key: full})
	}
	out, err := s.client.DeleteObjects(ctx, &s3.DeleteObjectsInput{
		Bucket: &s.bucket, Delete: &types.Delete{Objects: objects, Quiet: aws.Bool(true)},
	})
	if err != nil {
		return artifact.StoreFault(fmt.Sprintf("delete %d objects of %s", len(keys), s.location()), shortenError(err))
	}
	var failed []error
	for _, e := range out.Errors {
		if aws.ToString(e.Code) != "NoSuchKey" {
			failed = append(failed, artifact.StoreFault(
				fmt.Sprintf("delete s3://%s/%s", s.bucket, aws.ToString(e.Key)), errors.New(aws.ToString(e.Code)+": "+aws.ToString(e.Message))))
		}
	}
	return errors.Join(failed...)
}

func (s *Store) deleteEach(ctx context.Context, keys []string) error {
	var failed []error
	for _, key := range keys {
		if ctx.Err() != nil {
			return errors.Join(append(failed, artifact.StoreFault(fmt.Sprintf("delete %d objects", len(keys)), ctx.Err()))...)
		}
		failed = append(failed, s.Delete(ctx, key))
	}
	return errors.Join(failed...)
}

// List implements artifact.Store.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for object, err := range s.Objects(ctx, prefix) {
			if !yield(object.Key, err) {
				return
			}
		}
	}
}

// Objects implements artifact.Store.
func (s *Store) Objects(ctx context.Context, prefix string) iter.Seq2[artifact.Object, error] {
	return func(yield func(artifact.Object, error) bool) {
		err := artifact.CheckPrefix(prefix)
		if err == nil {
			err = s.listPages(ctx, prefix, func(o artifact.Object) bool { return yield(o, nil) })
		}
		if err != nil {
			yield(artifact.Object{}, artifact.StoreFault("list "+s.URL(prefix), shortenError(err)))
		}
	}
}

// listPages yields the objects under prefix until yield returns false. It relies on IsTruncated to
// detect the last page, since some servers send an empty page before the end.
func (s *Store) listPages(ctx context.Context, prefix string, yield func(artifact.Object) bool) error {
	in := &s3.ListObjectsV2Input{Bucket: &s.bucket}
	if full := s.prefix + prefix; full != "" {
		in.Prefix = &full
	}
	if s.pageSize > 0 {
		in.MaxKeys = &s.pageSize
	}
	pages := s3.NewListObjectsV2Paginator(s.client, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, object := range page.Contents {
			o := artifact.Object{
				Key: strings.TrimPrefix(aws.ToString(object.Key), s.prefix), Size: aws.ToInt64(object.Size), Modified: aws.ToTime(object.LastModified),
			}
			if artifact.CheckKey(o.Key) == nil && !yield(o) {
				return nil
			}
		}
		if aws.ToBool(page.IsTruncated) && aws.ToString(page.NextContinuationToken) == "" {
			return errors.New("the store reports more keys without a token to continue")
		}
	}
	return nil
}
