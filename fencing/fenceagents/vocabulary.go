package fenceagents

// vocabulary has the words, in lower case, that agents and the libraries and programs that they use
// complain with.
const vocabulary = `
a able aborted above absent accepted access accessible account action address after agent agentx agreement alert
algorithm allocate allocated already an and another api are argument arguments ascii at attached attempt attribute
attributeerror authenticate authenticated authentication authorization authorized auto available bad be before
block blocked bmc body booting broken buffer busy but by byte bytes ca call calling canceled cancelled cannot
caused certificate certificate_verify_failed chain chassis check checked checking cipher client clock closed
closing cloud cluster code codec command common community complete completion config configuration configured
conflict connect connect/login connected connection connectionerror connectionrefusederror connectionreseterror
content context core correct could couldn create credentials data deadline debug decode decoding decryption denied
dependency detached detected device devices dict did different directory disabled discovery disk does domain down
dumped duplicate during either empty encode end endpoint engine enough enter entered entity eof errno error
establish established establishing exceeded exceeds exception executable execute executed exist existing exists
exit expect expected expire expired extended failed failure fatal fault fence fencing file find fingerprint float
following for forbidden format found from full gateway get given gone good group handling handshake has have header
headers hibernating hmac hmc host hostname hosts html http httperror https id identification identity illegal image
implemented importerror in incorrect index indexerror information insecure inserted inside installed instance
instances insufficient integer integrity interactive interface internal interrupted invalid ioerror ipmi is issuer
it iterable its json key key-exchange keyboard keyerror keys killed lan lanplus last least length level limit
limited line list local locally locked log login login/password longer loop lost lun machine machines main
malformed managed many mapper match matching max maximum memory message method methods mib minimum mismatch missing
module modulenotfounderror more most moved multipath multiple must name nameerror need network no no_such_object
node non-existent none noresponse nosuchname not notice now number object obtain occurred of off offer offered oid
on one only open operation option options or ordinal oserror out output packet page parameter parse parsing
partition passphrase password path pattern paused peer pending permanent permission permitted pipe plug port
position post power powered powering precondition preempt preempted present privilege privileges process progress
prompt protocol proxy pseudo publickey query quota raise range rate reach reached read read-only rebooting received
recent redirect redirects refused region register registered rejected remote removed request requested requests
required reservation reset resolution resolve resource response retries retry returned rmcp role route run running
runtimeerror s same searcher seconds secret security segmentation select selected self self-signed sending
separator sequence server service session sessions set short shut shutdown shutting signal signature signed size
skew snmp socket specified specify ssh ssl sslerror standard standby starting state status stopped stopping storage
string subscriptable success such suite supplied support supported supports suspended switch system tags tcp teapot
temporarily temporary terminal terminated than the their there this throttled throttling time timed timed-out
timeout timeouterror tls to token tokens too tool traceback transport trap trust trusted trustworthy try trying
type typeerror udp unable unauthorized unauthorizedoperation unavailable unexpected unicode unknown unknownusername
unprocessable unreachable unreadable unregistered unsupported upgrade url usage user username username/password
users usm uuid valid validation value valueerror values variable verification verify version versions via virtual
vm vms wait waiting was when while with within without working would wrong yaml yet you
`
