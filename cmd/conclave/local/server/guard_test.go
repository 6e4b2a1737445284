package server

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"conclave/cmd/conclave/local"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/require"
)

func guardsTheStore(t *testing.T, stack local.Stack) {
	c := storeClient(stack, stack.S3SecretKey)
	t.Run("an upload that breaks off keeps the old object", func(t *testing.T) { keepsTheOldObject(t, stack, c) })
	t.Run("a part that breaks off is not stored", func(t *testing.T) { refusesABrokenPart(t, stack, c) })
	t.Run("of many creators one wins", func(t *testing.T) { letsOneCreatorWin(t, stack, c) })
	t.Run("keys that are not canonical are refused", func(t *testing.T) { refusesBadKeys(t, stack, c) })
	t.Run("writes and deletes in one directory do not disturb each other", func(t *testing.T) { survivesDeletes(t, stack, c) })
	t.Run("a corrupted body is refused", func(t *testing.T) { refusesCorruption(t, stack, c) })
	t.Run("a wrong secret is refused", func(t *testing.T) { refusesStrangers(t, stack) })
	t.Run("a copy and a multipart upload work", func(t *testing.T) { copiesAndAssembles(t, stack, c) })
}

func put(t *testing.T, c *s3.Client, stack local.Stack, key, content string) error {
	t.Helper()
	_, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &stack.Bucket, Key: &key, Body: strings.NewReader(content)})
	return err
}

func read(t *testing.T, c *s3.Client, stack local.Stack, key string) string {
	t.Helper()
	object, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &stack.Bucket, Key: &key})
	require.NoError(t, err)
	defer func() { _ = object.Body.Close() }()
	content, err := io.ReadAll(object.Body)
	require.NoError(t, err)
	return string(content)
}

func breakOff(t *testing.T, signed string, announced, sent int) {
	t.Helper()
	target, err := url.Parse(signed)
	require.NoError(t, err)
	conn, err := net.Dial("tcp", target.Host)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(2*time.Minute)))
	_, err = fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		target.RequestURI(), target.Host, announced, strings.Repeat("n", sent))
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	_, _ = io.Copy(io.Discard, conn)
}

func keepsTheOldObject(t *testing.T, stack local.Stack, c *s3.Client) {
	old := strings.Repeat("o", 1<<20)
	require.NoError(t, put(t, c, stack, "abort/object", old))
	// Without checksum and signature, only the length shows the incomplete body.
	signed, err := s3.NewPresignClient(c).PresignPutObject(t.Context(), &s3.PutObjectInput{Bucket: &stack.Bucket, Key: ptr("abort/object")})
	require.NoError(t, err)
	for _, sent := range []int{0, 1 << 10, 1 << 20, 5 << 20} {
		breakOff(t, signed.URL, 8<<20, sent)
		require.True(t, read(t, c, stack, "abort/object") == old, "the object changed after %d bytes", sent)
	}
}

func refusesABrokenPart(t *testing.T, stack local.Stack, c *s3.Client) {
	key := ptr("abort/parts")
	upload, err := c.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: &stack.Bucket, Key: key})
	require.NoError(t, err)
	signed, err := s3.NewPresignClient(c).PresignUploadPart(t.Context(), &s3.UploadPartInput{
		Bucket: &stack.Bucket, Key: key, UploadId: upload.UploadId, PartNumber: ptr[int32](1),
	})
	require.NoError(t, err)
	breakOff(t, signed.URL, 8<<20, 5<<20)
	parts, err := c.ListParts(t.Context(), &s3.ListPartsInput{Bucket: &stack.Bucket, Key: key, UploadId: upload.UploadId})
	require.NoError(t, err)
	require.Empty(t, parts.Parts)
}

func letsOneCreatorWin(t *testing.T, stack local.Stack, c *s3.Client) {
	const creators = 32
	var won, lost atomic.Int64
	var all sync.WaitGroup
	for i := range creators {
		all.Go(func() {
			_, err := c.PutObject(t.Context(), &s3.PutObjectInput{
				Bucket: &stack.Bucket, Key: ptr("create/object"), IfNoneMatch: aws.String("*"), Body: strings.NewReader(strconv.Itoa(i)),
			})
			switch {
			case err == nil:
				won.Add(1)
			case codeOf(err) == "PreconditionFailed":
				lost.Add(1)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, won.Load())
	require.EqualValues(t, creators-1, lost.Load())
}

func refusesBadKeys(t *testing.T, stack local.Stack, c *s3.Client) {
	require.NoError(t, put(t, c, stack, "a/b", "kept"))
	for _, key := range []string{"a//b", "./a/b", "/a/b", "a/./b", "a/../a/b", "../conclave/a/b", "..", ".", ".sgwtmp/b", ".sgwtmp"} {
		require.GreaterOrEqual(t, statusOf(t, put(t, c, stack, key, "no")), 400, "put %s", key)
		_, err := c.DeleteObjects(t.Context(), &s3.DeleteObjectsInput{Bucket: &stack.Bucket, Delete: &types.Delete{
			Objects: []types.ObjectIdentifier{{Key: ptr(key)}},
		}})
		require.GreaterOrEqual(t, statusOf(t, err), 400, "delete %s", key)
	}
	require.Equal(t, "kept", read(t, c, stack, "a/b"))
	require.NoError(t, put(t, c, stack, ".sgwtmpfile", "another name"))
	require.NoError(t, put(t, c, stack, "a/..b", "dots within a name"))
}

func survivesDeletes(t *testing.T, stack local.Stack, c *s3.Client) {
	var all sync.WaitGroup
	failures := make(chan error, 8*2*50)
	for w := range 8 {
		all.Go(func() {
			key := ptr("race/deep/directory/" + strconv.Itoa(w))
			for range 50 {
				_, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &stack.Bucket, Key: key, Body: bytes.NewReader([]byte("x"))})
				failures <- err
				_, err = c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &stack.Bucket, Key: key})
				failures <- err
			}
		})
	}
	all.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}
}

func refusesCorruption(t *testing.T, stack local.Stack, c *s3.Client) {
	_, err := c.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: &stack.Bucket, Key: ptr("corrupt"), Body: strings.NewReader("content"), ChecksumCRC32: aws.String("AAAAAA=="),
	})
	require.Equal(t, http.StatusBadRequest, statusOf(t, err))
}

func refusesStrangers(t *testing.T, stack local.Stack) {
	err := put(t, storeClient(stack, "not the secret"), stack, "stranger", "no")
	require.Equal(t, "SignatureDoesNotMatch", codeOf(err))
}

func copiesAndAssembles(t *testing.T, stack local.Stack, c *s3.Client) {
	key := ptr("multi/part")
	upload, err := c.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: &stack.Bucket, Key: key})
	require.NoError(t, err)
	first, second := strings.Repeat("1", 5<<20), "2"
	var parts []types.CompletedPart
	for i, content := range []string{first, second} {
		number := ptr(int32(i + 1))
		part, err := c.UploadPart(t.Context(), &s3.UploadPartInput{
			Bucket: &stack.Bucket, Key: key, UploadId: upload.UploadId, PartNumber: number, Body: strings.NewReader(content),
		})
		require.NoError(t, err)
		parts = append(parts, types.CompletedPart{ETag: part.ETag, PartNumber: number})
	}
	_, err = c.CompleteMultipartUpload(t.Context(), &s3.CompleteMultipartUploadInput{
		Bucket: &stack.Bucket, Key: key, UploadId: upload.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	})
	require.NoError(t, err)
	_, err = c.CopyObject(t.Context(), &s3.CopyObjectInput{
		Bucket: &stack.Bucket, Key: ptr("multi/copied/deeply"), CopySource: ptr(stack.Bucket + "/multi/part"),
	})
	require.NoError(t, err)
	require.Equal(t, first+second, read(t, c, stack, "multi/copied/deeply"))
}
