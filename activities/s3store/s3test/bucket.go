package s3test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"
)

// CreateBucket creates a bucket on the server at an endpoint.
func CreateBucket(t testing.TB, endpoint, accessKey, secretKey, bucket string) {
	t.Helper()
	client := s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: &endpoint, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(accessKey, secretKey, ""),
	})
	_, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &bucket})
	require.NoError(t, err)
}
