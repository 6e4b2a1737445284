//go:build e2e

package s3store

import (
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/files/storetest"
)

// restricted is a store whose credentials have the policy of deploy only.
func restricted(t *testing.T, m storetest.Server, prefix string) *Store {
	t.Helper()
	policy, err := os.ReadFile("../../deploy/bucket-policy.json")
	require.NoError(t, err)
	client := sts.New(sts.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(m.Endpoint()), Credentials: credentials.NewStaticCredentialsProvider(m.AccessKey, m.SecretKey, ""),
	})
	role, err := client.AssumeRole(t.Context(), &sts.AssumeRoleInput{
		RoleArn: aws.String("arn:aws:iam::000000000000:role/any"), RoleSessionName: aws.String("worker"), Policy: aws.String(string(policy)),
	})
	require.NoError(t, err)
	s, err := New(t.Context(), Options{Bucket: "sessions", Prefix: prefix, Endpoint: m.Endpoint(), AccessKeyID: "x", SecretAccessKey: "y"})
	require.NoError(t, err)
	s.client = s3.New(s.client.Options(), func(o *s3.Options) {
		o.Credentials = credentials.NewStaticCredentialsProvider(*role.Credentials.AccessKeyId, *role.Credentials.SecretAccessKey, *role.Credentials.SessionToken)
	})
	return s
}

// The policy of deploy gives a worker its prefix, and nothing else.
func TestMinIO_bucketPolicy(t *testing.T) {
	t.Parallel()
	m := storetest.StartMinIO(t)
	storetest.CreateBucket(t, m.Endpoint(), m.AccessKey, m.SecretKey, "sessions")
	root, err := New(t.Context(), Options{Bucket: "sessions", Prefix: "team-b", Endpoint: m.Endpoint(), AccessKeyID: m.AccessKey, SecretAccessKey: m.SecretKey})
	require.NoError(t, err)
	require.NoError(t, root.Create(t.Context(), "sessions/s1/session.json", []byte("{}")))

	own := restricted(t, m, "team-a")
	require.NoError(t, own.Probe(t.Context()))
	require.NoError(t, own.Create(t.Context(), "sessions/s1/session.json", []byte("{}")))
	var keys []string
	for key, err := range own.List(t.Context(), "sessions/") {
		require.NoError(t, err)
		keys = append(keys, key)
	}
	require.Equal(t, []string{"sessions/s1/session.json"}, keys)
	require.NoError(t, own.Delete(t.Context(), "sessions/s1/session.json"))

	other := restricted(t, m, "team-b")
	require.ErrorIs(t, other.Probe(t.Context()), errRefused)
	_, err = other.Get(t.Context(), "sessions/s1/session.json")
	require.Error(t, err)
	require.NotErrorIs(t, err, artifact.ErrNotFound)
	for _, err := range other.List(t.Context(), "sessions/") {
		require.Error(t, err, "the other prefix is not listed")
	}
}
