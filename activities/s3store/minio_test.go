//go:build e2e

package s3store

import (
	"testing"

	"conclave/engine/files/storetest"
)

// MinIO passes the same tests as the embedded gateway.
func TestMinIO(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T, gateway){
		"conformance":  testConformance,
		"small pages":  testSmallPages,
		"probe":        testProbe,
		"outage":       testOutage,
		"lost answers": testLostAnswers,
		"types":        testContentTypes,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := storetest.StartMinIO(t)
			test(t, gateway{Address: m.Address, AccessKey: m.AccessKey, SecretKey: m.SecretKey})
		})
	}
}
