// Package leaderelectiontest lets the tests of a program elect and depose it at will, without
// waiting:
//
//	election := leaderelectiontest.New(t, leaderelection.Config{StepDown: 4 * time.Second})
//	go func() { ended <- program.run(ctx, election.Elector) }() // calls Elector.Run
//	election.Elect()
//	...                 // the program leads
//	election.Depose()   // another process takes the Lease
//	...                 // its context has ended; guarded clients refuse
//	election.Elect()    // and so on; StepDown as well
//
// The elector is a real one, so the context of the work, its causes, the guard and the hooks are as
// in the program. Its Lease is in a fake of client-go. It leads until the test ends its term,
// however long that takes. To release the Lease, end the context of Run, as at the end of the
// process. The package also works in a testing/synctest bubble and in parallel tests.
//
// A fake of client-go serves one request at a time, so a reactor of yours that sleeps delays all
// others. In a bubble, where time stands still for them, the test may never end.
//
// A loss does not end the process: OnLost returns, so Run waits for the work to return, and contends
// again. An assertion that fails in the work ends it as a return does, and fails its test.
package leaderelectiontest
