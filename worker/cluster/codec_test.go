package cluster

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"
)

func keys(t *testing.T, ids ...string) (*Codec, string) {
	t.Helper()
	var all []string
	for _, id := range ids {
		key, err := NewCodecKey(id)
		require.NoError(t, err)
		all = append(all, key)
	}
	c, err := ParseCodecKey(strings.Join(all, ", "))
	require.NoError(t, err)
	return c, strings.Join(all, ",")
}

func payload(t *testing.T, value any) *commonpb.Payload {
	t.Helper()
	p, err := converter.GetDefaultDataConverter().ToPayload(value)
	require.NoError(t, err)
	return p
}

func TestCodec_roundTrip(t *testing.T) {
	t.Parallel()
	c, _ := keys(t, "2026")
	plain := []*commonpb.Payload{payload(t, "the query"), payload(t, nil), payload(t, []byte{0, 1}), {}}
	encoded, err := c.Encode(plain)
	require.NoError(t, err)
	require.NotContains(t, string(encoded[0].GetData()), "query")
	require.Equal(t, "2026", string(encoded[0].GetMetadata()[keyID]))
	again, err := c.Encode(plain)
	require.NoError(t, err)
	require.NotEqual(t, encoded[0].GetData(), again[0].GetData(), "equal payloads do not look equal")
	twice, err := c.Encode(encoded)
	require.NoError(t, err)
	decoded, err := c.Decode(twice)
	require.NoError(t, err)
	for i := range plain {
		require.True(t, proto.Equal(plain[i], decoded[i]), i)
	}
}

func TestCodec_readsPlainPayloads(t *testing.T) {
	t.Parallel()
	c, _ := keys(t, "a")
	plain := []*commonpb.Payload{payload(t, "from a stock client")}
	decoded, err := c.Decode(plain)
	require.NoError(t, err)
	require.Equal(t, plain, decoded)
}

func TestCodec_rotates(t *testing.T) {
	t.Parallel()
	old, oldKey := keys(t, "old")
	_, newKey := keys(t, "new")
	encoded, err := old.Encode([]*commonpb.Payload{payload(t, "x")})
	require.NoError(t, err)

	both, err := ParseCodecKey(newKey + "," + oldKey)
	require.NoError(t, err)
	_, err = both.Decode(encoded)
	require.NoError(t, err)
	renewed, err := both.Encode([]*commonpb.Payload{payload(t, "x")})
	require.NoError(t, err)
	require.Equal(t, "new", string(renewed[0].GetMetadata()[keyID]), "the first key encrypts")

	alone, err := ParseCodecKey(newKey)
	require.NoError(t, err)
	_, err = alone.Decode(encoded)
	require.ErrorContains(t, err, `the key "old" is not in CONCLAVE_PAYLOAD_KEY; add it`)
}

func TestCodec_refusesDamage(t *testing.T) {
	t.Parallel()
	c, _ := keys(t, "a", "b")
	for name, damage := range map[string]func(*commonpb.Payload){
		"a changed byte": func(p *commonpb.Payload) { p.Data[len(p.Data)-1] ^= 1 },
		"another key":    func(p *commonpb.Payload) { p.Metadata[keyID] = []byte("b") },
		"no data":        func(p *commonpb.Payload) { p.Data = nil },
	} {
		encoded, err := c.Encode([]*commonpb.Payload{payload(t, "x")})
		require.NoError(t, err)
		damage(encoded[0])
		_, err = c.Decode(encoded)
		require.ErrorContains(t, err, "the payload was damaged", name)
	}
}

func TestParse_refusals(t *testing.T) {
	t.Parallel()
	key, err := NewCodecKey("a")
	require.NoError(t, err)
	_, secret, _ := strings.Cut(key, ":")
	for value, says := range map[string]string{
		secret:                 "key 1 has no ID",
		key + ",":              "key 2 has no ID",
		key + "," + key:        "the key ID a is there twice",
		"a:" + secret[4:]:      "the key a is not 32 bytes in base64",
		"a:" + secret + "AAAA": "the key a is not 32 bytes",
		"a b:" + secret:        "key 1 has no ID",
	} {
		_, err := ParseCodecKey(value)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), secret[4:20], "errors have no keys")
	}
	_, err = NewCodecKey("a:b")
	require.ErrorContains(t, err, `"a:b" is not the ID of a key`)
}

func TestFromEnvironment(t *testing.T) {
	t.Setenv(KeyVariable, "")
	c, err := CodecFromEnvironment()
	require.NoError(t, err)
	require.Nil(t, c)
	t.Setenv(KeyVariable, "x")
	_, err = CodecFromEnvironment()
	require.ErrorContains(t, err, "read CONCLAVE_PAYLOAD_KEY: key 1 has no ID")
}
