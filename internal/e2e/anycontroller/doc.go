// Package anycontroller tests bellwether run --ring with programs that know nothing of it, on a real
// control plane: what others have published, as it is (make foreign), and a test in the place of a
// program. A judge reads the audit log and all versions of the objects. In make chaos, everything
// goes wrong meanwhile for as long as you say (TestForeignChaos).
package anycontroller
