//! The words that gravity depends on: verbs and objects, grouped by the consequence of the one on the other. The lists are the
//! vocabulary of the field, not of particular servers; a word is here because of its meaning.

/// Verbs that move money.
pub(super) const PAYS: &str =
    "pay withdraw buy purchase charge refund sell trade swap stake donate transact order bid redeem";
/// Things that are money, whatever the verb.
pub(super) const MONEY: &str = "payment payout refund charge withdrawal purchase";
/// Things that are money if the definition is about money.
pub(super) const PERHAPS_MONEY: &str =
    "subscription order transaction transfer position adjustment credit trade option wallet";
/// Words of a definition that is about money.
pub(super) const ABOUT_MONEY: &str = "price amount currency payment billing billed refund money market stock trading share invoice qty \
                                      quantity proration fee wallet usd crypto stripe paypal paddle square adyen braintree coinbase";
/// Words near money that are not money that moves.
pub(super) const NEAR_MONEY: &str = "link policy preference term invoice product price";

/// Things that define rights.
pub(super) const RIGHTS: &str = "permission role privilege credential password passphrase secret grant acl firewall mfa sso saml oauth \
                                 apikey entitlement allowlist whitelist denylist rbac otp certificate token cidr";
/// Words that make a `key` one that gives access.
pub(super) const OPENS: &str = "api access signing public private ssh encryption service secret new";
/// Words that make a `policy` one about rights.
pub(super) const RIGHTS_POLICY: &str = "iam access security permission role user group principal resource auth authentication inline \
                                        managed firewall sign password network device assurance statement arn";
/// Verbs that give or take rights.
pub(super) const GRANTS: &str = "grant revoke authorize authorise permit impersonate ban";
/// Parties that have rights.
pub(super) const PEOPLE: &str = "user member collaborator guest principal owner maintainer";
/// Verbs that add members to a group that has rights, or remove them.
pub(super) const ADMITS: &str = "create add remove delete activate deactivate suspend unsuspend enable disable block unblock lock unlock \
                                 kick promote demote provision deprovision set register enroll assign manage";
/// Things to which people are assigned as work, not as a right.
pub(super) const WORK: &str = "card issue task story ticket event meeting conversation list segment call reviewer pull page channel \
                               favorite contact audience";
/// Names of servers that decide who may log in.
pub(super) const LOGS_IN: &str = "okta auth0 keycloak entra cognito oidc iam";
/// Things that protect others.
pub(super) const GUARDS: &str = "firewall mfa protection policy audit encryption guard waf rule safeguard";

/// Verbs that deploy code, or restore another version.
pub(super) const DEPLOYS: &str = "deploy redeploy rollback migrate";
/// Things that change what runs when they are applied, installed or upgraded.
pub(super) const DEPLOYED: &str =
    "migration manifest yaml terraform helm chart kubernetes stack rollout production infrastructure";
/// Things that change what runs when they are created.
pub(super) const DEPLOYMENTS: &str = "deployment rollout migration";

/// Verbs that run a given program.
pub(super) const RUNS: &str = "run execute exec eval evaluate invoke interact";
/// Things that can do anything when they are run.
pub(super) const CODE: &str =
    "command code script sql statement shell program javascript python bash terminal process cypher apex";
/// Words that say that nothing is excluded.
pub(super) const ANY: &str = "any arbitrary raw direct directly general generic destructive";
/// Things that can be anything.
pub(super) const ANYTHING: &str = "request command operation code sql api crud";

/// Things that hold little: their removal is visible, and little is lost.
pub(super) const LIGHT: &str = "comment reaction label tag star like favorite bookmark reminder watcher notification filter footnote \
                                endnote link relation relationship alias highlight annotation sparkline slicer watching review";
/// Verbs that undo something that is easily done again.
pub(super) const TAKES_BACK: &str = "unlike unstar unfollow unsubscribe untag unlink unset disassociate unpin leave";
/// Verbs that end something that runs, not something stored.
pub(super) const ENDS: &str = "kill abort kick expire evict unpublish unshare cease shutdown";

/// Verbs that switch something that others depend on, whatever it is.
pub(super) const SWITCHES: &str = "reboot restart shutdown drain cordon uncordon scale";
/// Verbs that do so if the object is a machine or runs on one.
pub(super) const PERHAPS_SWITCHES: &str = "start stop pause resume suspend boot launch activate deactivate enable disable promote run resize \
                                           manage control";
/// Machines and what runs on them.
pub(super) const MACHINES: &str = "instance vm machine server droplet cluster node database broker project service application app \
                                   container pod vps host device environment deployment worker stack volume workload replica lifecycle \
                                   power rollout site firewall domain";
/// Those of them that cost by the hour.
pub(super) const RENTED: &str = "instance vm machine droplet cluster node broker vps server";
/// Words for a model of a machine, or for a private one.
pub(super) const PRACTICE: &str = "simulator emulator sim sandbox";

/// Verbs whose effect is visible outside.
pub(super) const OUTSIDE: &str = "send resend notify publish tweet retweet broadcast announce alert invite submit mail email sms message \
                                  dm post repost share reply respond call dial release forward deliver dispatch emit transmit feedback \
                                  say speak schedule approve push trigger replay upvote downvote";
/// Things that reach people when they are created.
pub(super) const LETTERS: &str =
    "message email mail sms call tweet broadcast announcement invitation campaign webhook post";
/// Things that users see, or that traffic follows.
pub(super) const SEEN: &str = "customer order dns nameserver route domain account listing campaign";
/// Things of the physical world that open, burn or move.
pub(super) const PHYSICAL: &str = "door garage gate valve thermostat alarm vehicle car robot drone oven heater";
/// Documents about money.
pub(super) const PAPERS: &str = "invoice dispute claim";
/// Settings of running software.
pub(super) const SETTINGS: &str = "env environment dotenv";
/// Work that runs elsewhere once it is started.
pub(super) const WORKLOADS: &str =
    "workflow pipeline job build actor agent action collection automation flow function campaign task";
/// Targets of merges or pushes in a shared history.
pub(super) const HISTORIES: &str = "pull pr branch fork request main master commit repository";

/// Verbs for small personal marks.
pub(super) const MARKS: &str = "star like bookmark tag label react vote watch follow pin mute snooze dismiss acknowledge draft resolve \
                                unresolve flag mkdir backup remember annotate";
/// Small marks.
pub(super) const MARKS_MADE: &str = "label tag reaction favorite bookmark draft watchlist memory directory backup annotation highlight \
                                     title reminder";

/// Verbs that move a view and touch nothing.
pub(super) const MOVES: &str = "hover navigate goto go scroll zoom focus blur resize emulate wheel swipe back forward";
/// Verbs that give input to a page or a screen.
pub(super) const INPUTS: &str = "click type fill press drag drop select tap key keyboard check handle";
/// Words of a browser.
pub(super) const BROWSERS: &str = "browser playwright puppeteer webpage page tab chrome";
/// State of a browser that ends when it is closed.
pub(super) const OF_BROWSERS: &str = "cookie localstorage sessionstorage storage tab window viewport tracing trace video recording \
                                      screencast console highlight dialog session route locator";
/// Verbs that choose the subject of later calls.
pub(super) const CHOOSES: &str = "switch select set use change activate choose open";
/// Words that say that the choice is temporary.
pub(super) const FOR_A_WHILE: &str = "session context subsequent future";
/// What is chosen, after `active` or `current`.
pub(super) const CHOSEN: &str = "project board workspace context company organization account database directory page tab session profile \
                                 library model site namespace team repository tenant";
/// Verbs that begin or end a connection.
pub(super) const CONNECTS: &str = "connect disconnect reconnect login logout authenticate";
/// Verbs that only leave a file.
pub(super) const LEAVES_A_FILE: &str = "download export render capture screenshot draw plot chart generate visualize visualise transcribe \
                                        synthesize convert compile build isolate preview print translate snapshot";
/// Work that is only watched, or leaves nothing when it ends.
pub(super) const WATCHED: &str =
    "crawl trace tracing recording analysis scan profile profiling screencast codegen transaction session";
