package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"

	"conclave/cmd/conclave/local"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
)

func temporalClient(t *testing.T, stack local.Stack) client.Client {
	t.Helper()
	c, err := client.DialContext(t.Context(), client.Options{
		HostPort:  stack.TemporalAddress,
		Namespace: stack.Namespace,
		Logger:    sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func storeClient(stack local.Stack, secret string) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint:     aws.String(stack.S3Endpoint),
		Region:           stack.S3Region,
		UsePathStyle:     true,
		RetryMaxAttempts: 1,
		HTTPClient:       &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: stack.S3AccessKey, SecretAccessKey: secret}, nil
		}),
	})
}

func requireHealthy(t *testing.T, stack local.Stack) {
	t.Helper()
	_, err := temporalClient(t, stack).CheckHealth(t.Context(), &client.CheckHealthRequest{})
	require.NoError(t, err)
	_, err = storeClient(stack, stack.S3SecretKey).HeadBucket(t.Context(), &s3.HeadBucketInput{Bucket: &stack.Bucket})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, get(t, stack.UIAddress+"/healthz", "").StatusCode)
}

func get(t *testing.T, url, host string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	request.Host = host
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func statusOf(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return 0
	}
	var answer interface{ HTTPStatusCode() int }
	require.ErrorAs(t, err, &answer)
	return answer.HTTPStatusCode()
}

func codeOf(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}
